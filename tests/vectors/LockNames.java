import java.nio.charset.StandardCharsets;
import java.util.TreeSet;

/**
 * The names of locks, as zklock makes them. Copy this file; it needs nothing else.
 *
 * <pre>{@code
 * LockNames.path("/zklock", LockNames.literal("orders/create"));
 * LockNames.path("/zklock", LockNames.pattern("orders/", order, "/create"));
 * }</pre>
 *
 * <p>A name is a relative path. What you write is checked. In a value, what cannot be part of a path
 * segment is escaped, so that it never adds a segment or leaves one; all else stays as it is, so that
 * {@code "/zklock/orders/" + order} is the same path for every order that can be a segment.
 */
public final class LockNames {
  /** The longest name, in bytes of UTF-8 with its escapes. */
  public static final int LONGEST = 1024;

  /**
   * The name breaks a rule; the message is {@code empty}, {@code empty-segment},
   * {@code empty-value}, {@code dots}, {@code refused}, {@code reserved} or {@code too-long}.
   */
  public static final class InvalidName extends IllegalArgumentException {
    private static final long serialVersionUID = 1;

    InvalidName(String flaw) {
      super(flaw);
    }
  }

  private final StringBuilder name = new StringBuilder();

  /** Where the present segment begins. */
  private int start = 0;

  /** Where the first unescaped character of a value stands in the present segment, or -1. */
  private int value = -1;

  /**
   * The {@code ~} of the present segment that would begin an escape which nobody wrote, if two
   * digits come to follow.
   */
  private final TreeSet<Integer> tildes = new TreeSet<>();

  private LockNames() {}

  /** Returns the path of the lock's node. */
  public static String path(String root, String name) {
    return root.equals("/") ? "/" + name : root + "/" + name;
  }

  /** Returns a name that you wrote, having checked it. */
  public static String literal(String name) {
    return pattern(name);
  }

  /** Returns the name of text and values, which alternate: text, value, text, value … */
  public static String pattern(Object... parts) {
    LockNames made = new LockNames();
    for (int index = 0; index < parts.length; index++) {
      String part = String.valueOf(parts[index]);
      if (index % 2 == 0) {
        made.addText(part);
      } else {
        made.addValue(part);
      }
    }
    if (made.name.length() == 0) {
      throw new InvalidName("empty");
    }
    made.endSegment();
    if (made.name.toString().getBytes(StandardCharsets.UTF_8).length > LONGEST) {
      throw new InvalidName("too-long");
    }
    return made.name.toString();
  }

  private void addText(String text) {
    for (int at = 0; at < text.length(); at++) {
      char c = text.charAt(at);
      if (refused(c)) {
        throw new InvalidName("refused");
      }
      if (c == '/') {
        endSegment();
        name.append(c);
        start = name.length();
      } else {
        name.append(c);
      }
    }
  }

  private void addValue(String text) {
    if (text.isEmpty()) {
      throw new InvalidName("empty-value");
    }
    // A literal ~ at the end, with which the value could make an escape.
    for (int at = Math.max(start, name.length() - 2); at < name.length(); at++) {
      if (name.charAt(at) == '~') {
        tildes.add(at);
      }
    }
    if (text.length() > LONGEST) {
      throw new InvalidName("too-long");
    }
    for (int c : text.codePoints().toArray()) {
      if (c >= 0xd800 && c <= 0xdfff) {
        // Half a character, which has no UTF-8 to escape.
        throw new InvalidName("refused");
      }
      if (c == '/' || c > 0xffff || refused((char) c)) {
        name.append(escape(c));
      } else {
        if (value < 0) {
          value = name.length();
        }
        if (c == '~') {
          tildes.add(name.length());
        }
        name.append((char) c);
      }
    }
  }

  private void endSegment() {
    for (int at : tildes.descendingSet()) {
      int end = Math.min(at + 3, name.length());
      if (name.substring(at + 1, end).matches("[0-9A-F]{2}")) {
        name.insert(at + 1, "7E");
      }
    }
    tildes.clear();
    String flaw = flaw(name.substring(start));
    if (flaw != null) {
      // What a value did wrong, escaping its first character puts right.
      if (value < 0) {
        throw new InvalidName(flaw);
      }
      name.replace(value, value + 1, escape(name.charAt(value)));
    }
    value = -1;
  }

  private static String flaw(String segment) {
    switch (segment) {
      case "":
        return "empty-segment";
      case ".":
      case "..":
        return "dots";
      case "locks":
      case "leases":
        return "reserved";
      default:
        return null;
    }
  }

  /** Whether ZooKeeper refuses the UTF-16 unit in a path. */
  private static boolean refused(char c) {
    return c <= 0x1f || (c >= 0x7f && c <= 0x9f) || (c >= 0xd800 && c <= 0xf8ff) || c >= 0xfff0;
  }

  private static String escape(int codePoint) {
    StringBuilder escaped = new StringBuilder();
    String text = new String(Character.toChars(codePoint));
    for (byte unit : text.getBytes(StandardCharsets.UTF_8)) {
      escaped.append(String.format("~%02X", unit));
    }
    return escaped.toString();
  }
}
