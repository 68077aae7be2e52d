import java.io.BufferedReader;
import java.io.InputStreamReader;
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
 * {@code ready} and {@code result ELAPSED_NS cycles NS:1 … waits NS:1 … handoffs NS:1 …}. It ends
 * with its input.
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
