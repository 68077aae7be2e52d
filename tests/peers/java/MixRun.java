import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Takes a lock n times and prints for each `MODE ENTERED LEFT`, in nanoseconds of the machine's
 * monotonic clock. Arguments: connect string, `rw` or `semaphore:LIMIT`, path of the lock, n.
 */
public final class MixRun {
    private static final Random RANDOM = new Random();

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                args[0], 10_000, 5000, new ExponentialBackoffRetry(100, 5));
        client.start();
        int n = Integer.parseInt(args[3]);
        InterProcessReadWriteLock both = null;
        InterProcessSemaphoreV2 semaphore = null;
        if (args[1].equals("rw")) {
            both = new InterProcessReadWriteLock(client, args[2]);
        } else {
            int limit = Integer.parseInt(args[1].substring("semaphore:".length()));
            semaphore = new InterProcessSemaphoreV2(client, args[2], limit);
        }
        for (int i = 0; i < n; i++) {
            if (semaphore != null) {
                Lease lease = semaphore.acquire();
                pass("permit");
                semaphore.returnLease(lease);
                continue;
            }
            boolean reads = RANDOM.nextInt(3) > 0;
            InterProcessMutex lock = reads ? both.readLock() : both.writeLock();
            lock.acquire();
            try {
                pass(reads ? "read" : "write");
            } finally {
                lock.release();
            }
        }
        client.close();
    }

    private static void pass(String mode) throws InterruptedException {
        long entered = System.nanoTime();
        TimeUnit.MILLISECONDS.sleep(1 + RANDOM.nextInt(3));
        System.out.println(mode + " " + entered + " " + System.nanoTime());
    }
}
