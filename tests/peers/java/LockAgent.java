import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.KeeperException;

/**
 * Curator's locks, driven over stdin and stdout. Arguments: connect string, session timeout in ms.
 * The protocol is in the README beside these programs.
 */
public final class LockAgent {
    /** What a grant can do; each has its own thread, because Curator's locks belong to threads. */
    private interface Lock {
        boolean acquire(long timeoutMs) throws Exception;

        String node() throws Exception;

        void release() throws Exception;
    }

    private static final class Grant {
        final CountDownLatch released = new CountDownLatch(1);
        volatile String releaseId;
    }

    private static final Map<String, Grant> GRANTS = new ConcurrentHashMap<>();
    private static final Map<String, Thread> WAITING = new ConcurrentHashMap<>();
    private static final AtomicInteger HANDLES = new AtomicInteger();

    private static CuratorFramework client;

    public static void main(String[] args) throws Exception {
        client = CuratorFrameworkFactory.newClient(
                args[0], Integer.parseInt(args[1]), 5000, new ExponentialBackoffRetry(100, 5));
        client.start();
        client.blockUntilConnected();
        say("ready");
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.trim().split(" ");
            if (words[0].equals("quit")) {
                break;
            }
            try {
                serve(words);
            } catch (Exception e) {
                fail(words[0], e);
            }
        }
        client.close();
        System.exit(0);
    }

    private static void serve(String[] words) throws Exception {
        String id = words[0];
        switch (words[1]) {
            case "acquire" -> {
                String[] request = words;
                Thread thread = new Thread(() -> hold(id, request));
                thread.setDaemon(true);
                WAITING.put(id, thread);
                thread.start();
            }
            case "release" -> {
                Grant grant = GRANTS.remove(words[2]);
                if (grant == null) {
                    say(id + " error no such handle");
                    return;
                }
                grant.releaseId = id;
                grant.released.countDown();
            }
            case "cancel" -> {
                Thread thread = WAITING.get(words[2]);
                if (thread != null) {
                    thread.interrupt();
                }
                say(id + " ok");
            }
            case "participants" -> say(id + " ok" + participants(words[2]));
            case "revoke" -> {
                Revoker.attemptRevoke(client, words[2]);
                say(id + " ok");
            }
            default -> say(id + " error no such command");
        }
    }

    /** Acquires, waits for the release, and releases: all on one thread. */
    private static void hold(String id, String[] words) {
        String handle = Integer.toString(HANDLES.incrementAndGet());
        Lock lock;
        try {
            lock = lock(words[2], words[3], handle);
            boolean held = lock.acquire(Long.parseLong(words[4]));
            long at = System.nanoTime();
            WAITING.remove(id);
            if (!held) {
                say(id + " busy");
                return;
            }
            Grant grant = new Grant();
            GRANTS.put(handle, grant);
            say(id + " ok " + handle + " " + lock.node() + " " + at);
            awaitRelease(grant, lock);
        } catch (InterruptedException e) {
            say(id + " cancelled");
        } catch (Exception e) {
            fail(id, e);
        } finally {
            WAITING.remove(id);
        }
    }

    private static void awaitRelease(Grant grant, Lock lock) throws InterruptedException {
        grant.released.await();
        long at = System.nanoTime();
        try {
            lock.release();
            say(grant.releaseId + " ok " + at);
        } catch (Exception e) {
            fail(grant.releaseId, e);
        }
    }

    private static Lock lock(String kind, String path, String handle) {
        if (kind.startsWith("semaphore:")) {
            return semaphore(path, Integer.parseInt(kind.substring("semaphore:".length())));
        }
        switch (kind) {
            case "mutex":
                return mutex(new InterProcessMutex(client, path));
            case "revocable":
                InterProcessMutex revocable = new InterProcessMutex(client, path);
                revocable.makeRevocable(asked -> say("event revoked " + handle));
                return mutex(revocable);
            case "read":
                return mutex(new InterProcessReadWriteLock(client, path).readLock());
            case "leader":
                return leader(path);
            case "write":
                return mutex(new InterProcessReadWriteLock(client, path).writeLock());
            default:
                throw new IllegalArgumentException("no such kind: " + kind);
        }
    }

    private static Lock mutex(InterProcessMutex mutex) {
        return new Lock() {
            @Override
            public boolean acquire(long timeoutMs) throws Exception {
                if (timeoutMs >= 0) {
                    return mutex.acquire(timeoutMs, TimeUnit.MILLISECONDS);
                }
                mutex.acquire();
                return true;
            }

            @Override
            public String node() throws Exception {
                // Protected; the read/write lock's classes cannot be extended from here.
                Method path = InterProcessMutex.class.getDeclaredMethod("getLockPath");
                path.setAccessible(true);
                return (String) path.invoke(mutex);
            }

            @Override
            public void release() throws Exception {
                mutex.release();
            }
        };
    }

    /** Leads from the grant until the release. */
    private static Lock leader(String path) {
        CountDownLatch leads = new CountDownLatch(1);
        CountDownLatch over = new CountDownLatch(1);
        LeaderSelectorListenerAdapter listener = new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework client) throws Exception {
                leads.countDown();
                over.await();
            }
        };
        LeaderSelector selector = new LeaderSelector(client, path, listener);
        return new Lock() {
            @Override
            public boolean acquire(long timeoutMs) throws Exception {
                selector.start();
                if (timeoutMs < 0) {
                    leads.await();
                } else if (!leads.await(timeoutMs, TimeUnit.MILLISECONDS)) {
                    selector.close();
                    return false;
                }
                return true;
            }

            @Override
            public String node() throws Exception {
                return participants(path).trim().split(" ")[0];
            }

            @Override
            public void release() {
                over.countDown();
            }
        };
    }

    private static Lock semaphore(String path, int limit) {
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, limit);
        AtomicReference<Lease> lease = new AtomicReference<>();
        return new Lock() {
            @Override
            public boolean acquire(long timeoutMs) throws Exception {
                lease.set(timeoutMs < 0
                        ? semaphore.acquire()
                        : semaphore.acquire(timeoutMs, TimeUnit.MILLISECONDS));
                return lease.get() != null;
            }

            @Override
            public String node() {
                return path + "/leases/" + lease.get().getNodeName();
            }

            @Override
            public void release() {
                semaphore.returnLease(lease.get());
            }
        };
    }

    private static String participants(String path) throws Exception {
        Collection<String> nodes;
        try {
            nodes = new InterProcessMutex(client, path).getParticipantNodes();
        } catch (KeeperException.NoNodeException e) {
            nodes = List.of();
        }
        StringBuilder words = new StringBuilder();
        nodes.forEach(node -> words.append(' ').append(node));
        return words.toString();
    }

    private static void fail(String id, Exception e) {
        say(id + " error " + e.toString().replace('\n', ' '));
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
