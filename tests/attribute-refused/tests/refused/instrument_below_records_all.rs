use tracing::instrument;
use zklock::{LockError, zk_locked};

#[derive(Debug)]
struct Login {
    user: u64,
    password: String,
}

struct State(u64);

#[zk_locked("logins/{user}")]
#[instrument]
async fn log_in(Login { user, .. }: Login) -> Result<u64, LockError> {
    Ok(user)
}

#[zk_locked("logins/{user}")]
#[tracing::instrument(skip(user), fields(skip_all = 1))]
fn of_all((user, _): (u64, String), _: State, ref name: String, whole: u8) -> Result<u64, LockError> {
    Ok(user + u64::from(whole) + name.len() as u64)
}

fn main() {}
