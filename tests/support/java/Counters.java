import java.io.File;
import java.util.HashMap;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileSnap;

/**
 * Writes the snapshot of a server on which nodes have had many children: DATA_FOLDER [PATH COUNT]...
 *
 * <p>The number of a sequential node is how many children its parent had before.
 */
public class Counters {
    public static void main(String[] args) throws Exception {
        DataTree tree = new DataTree();
        long zxid = 0;
        for (int i = 1; i < args.length; i += 2) {
            String path = "";
            for (String name : args[i].substring(1).split("/")) {
                path += "/" + name;
                if (tree.getNode(path) == null) {
                    long now = System.currentTimeMillis();
                    tree.createNode(path, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, 0, -1, ++zxid, now);
                }
            }
            tree.setCversionPzxid(path, Integer.parseInt(args[i + 1]), ++zxid);
        }
        tree.lastProcessedZxid = zxid;
        File folder = new File(args[0], "version-2");
        folder.mkdirs();
        File file = new File(folder, "snapshot." + Long.toHexString(zxid));
        new FileSnap(folder).serialize(tree, new HashMap<>(), file, true);
    }
}
