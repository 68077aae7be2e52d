import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * Takes a Curator mutex for each id, prints their paths in a line, and holds all until the end of
 * input.
 * Arguments: connect string, path above, a file with a line for each id: {@code plain} or
 * {@code escaped}, and its UTF-8 in hex. The path of a plain id is what stands before it and the id.
 * Paths are printed in hex.
 */
public final class NamesRun {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                args[0], 20_000, 5000, new ExponentialBackoffRetry(100, 5));
        client.start();
        List<InterProcessMutex> held = new ArrayList<>();
        List<String> paths = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(args[2]))) {
            String[] words = line.split(" ");
            String id = new String(HexFormat.of().parseHex(words[1]), UTF_8);
            String path = words[0].equals("plain")
                    ? args[1] + "/orders/" + id
                    : LockNames.path(args[1], LockNames.pattern("orders/", id));
            InterProcessMutex mutex = new InterProcessMutex(client, path);
            mutex.acquire();
            held.add(mutex);
            paths.add(HexFormat.of().formatHex(path.getBytes(UTF_8)));
        }
        System.out.println(String.join(" ", paths));
        System.in.readAllBytes();
        for (InterProcessMutex mutex : held) {
            mutex.release();
        }
        client.close();
    }
}
