import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Measures acquire + release of Curator's mutex; the release is awaited.
 *
 * <p>Arguments: connect string, path, mode, n, seconds, optionally seconds of warm-up (5). Modes:
 * {@code 1x1}; {@code tasks}, n threads on one client and one mutex; {@code sessions}, n clients
 * with one thread each; {@code locks}, n threads on one client, each with a lock of its own.
 */
public final class MutexBench {
    private static volatile boolean measuring;
    private static volatile boolean running = true;

    public static void main(String[] args) throws Exception {
        String mode = args[2];
        int n = mode.equals("1x1") ? 1 : Integer.parseInt(args[3]);
        double seconds = Double.parseDouble(args[4]);
        double warmUp = args.length > 5 ? Double.parseDouble(args[5]) : 5;

        List<CuratorFramework> clients = new ArrayList<>();
        for (int i = 0; i < (mode.equals("sessions") ? n : 1); i++) {
            CuratorFramework client = CuratorFrameworkFactory.newClient(
                    args[0], 30_000, 10_000, new ExponentialBackoffRetry(100, 5));
            client.start();
            client.blockUntilConnected();
            clients.add(client);
        }
        InterProcessMutex shared = new InterProcessMutex(clients.get(0), args[1]);
        List<Worker> workers = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            workers.add(new Worker(switch (mode) {
                case "1x1", "tasks" -> shared;
                case "sessions" -> new InterProcessMutex(clients.get(i), args[1]);
                case "locks" -> new InterProcessMutex(clients.get(0), args[1] + "/" + (1000 + i));
                default -> throw new IllegalArgumentException("no such mode: " + mode);
            }));
        }
        workers.forEach(Thread::start);
        Thread.sleep((long) (warmUp * 1000));
        long start = System.nanoTime();
        measuring = true;
        Thread.sleep((long) (seconds * 1000));
        // A short run on a loaded machine: go on to the first cycle, and count that time too.
        long limit = System.nanoTime() + 60_000_000_000L;
        while (workers.stream().allMatch(w -> w.count == 0) && System.nanoTime() < limit) {
            Thread.sleep(10);
        }
        measuring = false;
        double took = (System.nanoTime() - start) / 1e9;
        running = false;
        for (Worker worker : workers) {
            worker.join();
        }
        clients.forEach(CuratorFramework::close);
        print(workers, took);
    }

    private static void print(List<Worker> workers, double took) {
        long[] all = workers.stream().flatMapToLong(w -> Arrays.stream(w.nanos, 0, w.count))
                .sorted().toArray();
        if (all.length == 0) {
            throw new IllegalStateException("nothing was measured");
        }
        System.out.printf(Locale.ROOT,
                "locks_per_s=%.1f p50_us=%.1f p99_us=%.1f max_us=%.1f count=%d%n",
                all.length / took, all[all.length / 2] / 1e3,
                all[(int) Math.min(all.length - 1, all.length * 99L / 100)] / 1e3,
                all[all.length - 1] / 1e3, all.length);
    }

    private static final class Worker extends Thread {
        private final InterProcessMutex mutex;
        private long[] nanos = new long[1 << 16];
        private volatile int count;

        Worker(InterProcessMutex mutex) {
            this.mutex = mutex;
        }

        @Override
        public void run() {
            try {
                while (running) {
                    long start = System.nanoTime();
                    mutex.acquire();
                    mutex.release();
                    if (measuring) {
                        record(System.nanoTime() - start);
                    }
                }
            } catch (Exception e) {
                e.printStackTrace();
                System.exit(1);
            }
        }

        private void record(long time) {
            if (count == nanos.length) {
                nanos = Arrays.copyOf(nanos, 2 * count);
            }
            nanos[count] = time;
            count++;
        }
    }
}
