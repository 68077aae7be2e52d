import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Curator's InterProcessMutex, measured.
 *
 * <p>Reads {@code open SESSIONS THREADS LOCKS} and {@code run MILLISECONDS} from its input, answers
 * {@code ready} and {@code result ELAPSED_NS cycles NS:1 … waits NS:1 … handoffs NS:1 …}; for
 * {@code hold} and {@code wait} see {@link #grow}. It ends with its input.
 */
public final class CuratorRounds {
  private static final List<CuratorFramework> SESSIONS = new ArrayList<>();
  private static final ExecutorService THREADS =
      Executors.newCachedThreadPool(
          work -> {
            Thread thread = new Thread(work);
            thread.setDaemon(true);
            return thread;
          });
  private static final AtomicLong RELEASED = new AtomicLong();
  private static final String WAITED = "/curator/waited-for";

  private static final class Measured {
    final List<Long> cycles = new ArrayList<>();
    final List<Long> waits = new ArrayList<>();
    final List<Long> handoffs = new ArrayList<>();
    long elapsed;
  }

  private static Measured cycle(
      InterProcessMutex mutex, CyclicBarrier barrier, long nanos, boolean passed) throws Exception {
    Measured measured = new Measured();
    barrier.await();
    long start = System.nanoTime();
    long asked = start;
    do {
      mutex.acquire();
      long granted = System.nanoTime();
      if (passed) {
        long released = RELEASED.getAndSet(0);
        if (released != 0) {
          measured.handoffs.add(granted - released);
        }
        RELEASED.set(System.nanoTime());
      }
      mutex.release();
      long done = System.nanoTime();
      measured.waits.add(granted - asked);
      measured.cycles.add(done - asked);
      asked = done;
      measured.elapsed = done - start;
    } while (measured.elapsed < nanos);
    return measured;
  }

  private static void words(StringBuilder line, String name, List<Long> values) {
    line.append(' ').append(name);
    for (long value : values) {
      line.append(' ').append(value).append(":1");
    }
  }

  /** Memory that is in use: of the heap, which is as large as ever, and of the rest. */
  private static long footprint() throws Exception {
    Runtime runtime = Runtime.getRuntime();
    for (int time = 0; time < 3; time++) {
      System.gc();
      Thread.sleep(50);
    }
    long anonymous = 0;
    for (String line : Files.readAllLines(Paths.get("/proc/self/smaps_rollup"))) {
      if (line.startsWith("Anonymous:")) {
        anonymous = Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
      }
    }
    return anonymous + runtime.totalMemory() - runtime.freeMemory();
  }

  /** Takes locks that nobody wants, with so many threads, and keeps them. */
  private static void hold(String label, int count, int threads, List<Object> held)
      throws Exception {
    List<Callable<Void>> work = new ArrayList<>();
    for (int thread = 0; thread < threads; thread++) {
      int first = thread;
      work.add(
          () -> {
            for (int number = first; number < count; number += threads) {
              String path = "/curator/" + label + "/lock-" + number;
              InterProcessMutex mutex = new InterProcessMutex(SESSIONS.get(0), path);
              mutex.acquire();
              synchronized (held) {
                held.add(mutex);
              }
            }
            return null;
          });
    }
    for (Future<Void> future : THREADS.invokeAll(work)) {
      future.get();
    }
  }

  /** Lets so many more threads wait for a lock that is held. */
  private static void queue(int count, int all) throws Exception {
    InterProcessMutex mutex = new InterProcessMutex(SESSIONS.get(0), WAITED);
    for (int thread = 0; thread < count; thread++) {
      THREADS.submit(
          () -> {
            mutex.acquire();
            return null;
          });
    }
    while (SESSIONS.get(0).getChildren().forPath(WAITED).size() < all) {
      Thread.sleep(20);
    }
    // Each has its node; it watches a moment later.
    Thread.sleep(500);
  }

  /**
   * {@code hold COUNT THREADS} or {@code wait COUNT THREADS}, each twice: the second time nothing is
   * new but what is kept. Answers {@code footprint BYTES_EACH NANOSECONDS}.
   */
  private static String grow(String what, int count, int threads) throws Exception {
    List<Object> held = new ArrayList<>(2 * count);
    if (what.equals("wait")) {
      new InterProcessMutex(SESSIONS.get(0), WAITED).acquire();
    }
    long before = 0;
    long start = 0;
    long taken = 0;
    for (int time = 1; time <= 2; time++) {
      before = footprint();
      start = System.nanoTime();
      if (what.equals("wait")) {
        queue(count, 1 + time * count);
      } else {
        hold("time" + time, count, threads, held);
      }
      taken = System.nanoTime() - start;
    }
    return "footprint " + (footprint() - before) / count + " " + taken;
  }

  public static void main(String[] arguments) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    List<InterProcessMutex> mutexes = new ArrayList<>();
    boolean passed = false;
    for (String text = input.readLine(); text != null; text = input.readLine()) {
      String[] words = text.trim().split(" +");
      if (words[0].equals("open")) {
        int sessions = Integer.parseInt(words[1]);
        int threads = Integer.parseInt(words[2]);
        int locks = Integer.parseInt(words[3]);
        passed = sessions > 1 && locks == 1;
        mutexes.clear();
        while (SESSIONS.size() < sessions) {
          CuratorFramework session =
              CuratorFrameworkFactory.newClient(
                  arguments[0], 30_000, 15_000, new ExponentialBackoffRetry(100, 5));
          session.start();
          session.blockUntilConnected();
          SESSIONS.add(session);
        }
        for (int session = 0; session < sessions; session++) {
          // One object for each lock and session, shared by its threads, as a service has it.
          List<InterProcessMutex> mine = new ArrayList<>();
          for (int lock = 0; lock < locks; lock++) {
            mine.add(new InterProcessMutex(SESSIONS.get(session), "/curator/lock-" + lock));
          }
          for (int thread = 0; thread < threads; thread++) {
            mutexes.add(mine.get(thread % locks));
          }
        }
        System.out.println("ready");
      } else if (words[0].equals("hold") || words[0].equals("wait")) {
        int count = Integer.parseInt(words[1]);
        System.out.println(grow(words[0], count, Integer.parseInt(words[2])));
      } else {
        long nanos = Long.parseLong(words[1]) * 1_000_000;
        CyclicBarrier barrier = new CyclicBarrier(mutexes.size());
        RELEASED.set(0);
        List<Callable<Measured>> work = new ArrayList<>();
        for (InterProcessMutex mutex : mutexes) {
          boolean pass = passed;
          work.add(() -> cycle(mutex, barrier, nanos, pass));
        }
        Measured all = new Measured();
        for (Future<Measured> future : THREADS.invokeAll(work)) {
          Measured measured = future.get();
          all.cycles.addAll(measured.cycles);
          all.waits.addAll(measured.waits);
          all.handoffs.addAll(measured.handoffs);
          all.elapsed = Math.max(all.elapsed, measured.elapsed);
        }
        StringBuilder line = new StringBuilder("result ").append(all.elapsed);
        words(line, "cycles", all.cycles);
        words(line, "waits", all.waits);
        words(line, "handoffs", all.handoffs);
        System.out.println(line);
      }
    }
    System.exit(0);
  }
}
