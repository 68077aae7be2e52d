import java.io.File;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

/**
 * Adds a node to the data of a server that does not run: DATA_FOLDER PATH.
 *
 * <p>It is ephemeral, and its session is long over. The other servers of the ensemble do not have it
 * and none of them notices, as after ZOOKEEPER-5010.
 */
public class Stray {
    public static void main(String[] args) throws Exception {
        File folder = new File(args[0]);
        FileTxnSnapLog files = new FileTxnSnapLog(folder, folder);
        DataTree tree = new DataTree();
        Map<Long, Integer> sessions = new ConcurrentHashMap<>();
        files.restore(tree, sessions, (header, record, digest) -> {});
        long now = System.currentTimeMillis();
        tree.createNode(args[1], new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, 1, -1, tree.lastProcessedZxid, now);
        files.save(tree, new ConcurrentHashMap<>(sessions), true);
        files.close();
    }
}
