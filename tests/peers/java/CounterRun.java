import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Adds 1 to the number in a file, n times, each under a Curator mutex. Without mutual exclusion
 * updates get lost, or the file beside it that marks the section is there already. Arguments: connect string, path of the lock, file, n.
 */
public final class CounterRun {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                args[0], 10_000, 5000, new ExponentialBackoffRetry(100, 5));
        client.start();
        InterProcessMutex mutex = new InterProcessMutex(client, args[1]);
        Path file = Path.of(args[2]);
        Path inside = Path.of(args[2] + ".inside");
        int n = Integer.parseInt(args[3]);
        for (int i = 0; i < n; i++) {
            mutex.acquire();
            try {
                Files.createFile(inside);
                long value = Long.parseLong(Files.readString(file).trim());
                Thread.yield();
                Files.writeString(file, Long.toString(value + 1));
                Files.delete(inside);
            } finally {
                mutex.release();
            }
        }
        client.close();
        System.out.println("done " + n);
    }
}
