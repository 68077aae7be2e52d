//! What is done to the clients and to their connections.

use std::time::Duration;

use rustix::process::Signal;
use zklock_test_support::{Cut, Direction, Proxy};

use super::agent::Seat;
use super::faults::Stage;
use super::random::Random;
use super::removal::end_session;
use super::run::SESSION_TIMEOUT;

impl Stage<'_> {
    /// Breaks clients and their connections until it is over; then all are whole.
    pub(super) fn clients(&self, seats: &[Seat], mut random: Random, mean: Duration) {
        let mut incarnation = 1;
        while !self.is_over() {
            self.pause(mean.mul_f64(2.0 * random.below(100) as f64 / 100.0));
            self.wait_for_storm();
            let seat = random.one_of(seats);
            let name = seat.name();
            let all = |act: &dyn Fn(&Proxy)| seat.proxies.iter().for_each(act);
            let long = SESSION_TIMEOUT.mul_f64(*random.one_of(&[0.3, 0.5, 1.5]));
            let begin = |what| {
                self.note(what, Some(&name));
                what
            };
            let what = match random.below(21) {
                0..6 => {
                    let what = begin("connections cut");
                    let way = if random.below(2) == 0 { Cut::Fin } else { Cut::Reset };
                    all(&|proxy| proxy.cut(way));
                    what
                }
                6..9 => {
                    let what = begin("server out of reach");
                    let proxy = random.one_of(&seat.proxies);
                    proxy.refuse(true);
                    proxy.cut(Cut::Reset);
                    self.pause(long);
                    proxy.heal();
                    what
                }
                9..11 => {
                    let what = begin("silence");
                    all(&|proxy| proxy.black_hole(true));
                    self.pause(long);
                    all(&Proxy::heal);
                    what
                }
                11..13 => {
                    let what = begin("deaf");
                    all(&|proxy| proxy.black_hole_one_way(Direction::ToClient, true));
                    self.pause(long);
                    all(&Proxy::heal);
                    what
                }
                13 => {
                    let what = begin("slow network");
                    all(&|proxy| proxy.delay(Duration::from_millis(30)));
                    self.pause(long);
                    all(&Proxy::heal);
                    what
                }
                14..17 => {
                    let what = begin("client stopped");
                    seat.signal(Signal::STOP);
                    let times = *random.one_of(&[0.5, 0.5, 1.5, 3.0]);
                    self.pause(SESSION_TIMEOUT.mul_f64(times));
                    seat.signal(Signal::CONT);
                    what
                }
                17..19 => {
                    let what = begin("client killed");
                    seat.kill();
                    incarnation += 1;
                    seat.start(incarnation);
                    what
                }
                _ => {
                    let latest = |proxy: &Proxy| proxy.sessions().pop();
                    let found: Vec<_> = seat.proxies.iter().filter_map(latest).collect();
                    if found.is_empty() {
                        continue;
                    }
                    let what = begin("session taken");
                    let key = random.one_of(&found);
                    all(&|proxy| proxy.refuse(true));
                    all(&|proxy| proxy.cut_session(key.id, Cut::Fin));
                    end_session(self, &name, key);
                    all(&Proxy::heal);
                    what
                }
            };
            self.healed(what, Some(&name));
        }
        for seat in seats {
            seat.proxies.iter().for_each(Proxy::heal);
        }
    }
}
