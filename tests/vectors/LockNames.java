import java.nio.charset.StandardCharsets;

/**
 * The names of locks, as zklock makes them. Copy this file; it needs nothing else.
 *
 * <pre>{@code
 * LockNames.path("/zklock", LockNames.literal("orders/create"));
 * LockNames.path("/zklock", LockNames.pattern("orders/", order, "/create"));
 * }</pre>
 *
 * <p>A name is a relative path. What you write is checked; a value in a pattern is escaped, so that
 * it never adds a path segment or leaves one.
 */
public final class LockNames {
  /** The longest name, in bytes of UTF-8 with its escapes. */
  public static final int LONGEST = 1024;

  /**
   * The name breaks a rule; the message is {@code empty}, {@code empty-segment}, {@code dots},
   * {@code refused}, {@code low-start}, {@code reserved} or {@code too-long}.
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
    if (text.length() > LONGEST) {
      throw new InvalidName("too-long");
    }
    for (int c : text.codePoints().toArray()) {
      if (c >= 0xd800 && c <= 0xdfff) {
        // Half a character, which has no UTF-8 to escape.
        throw new InvalidName("refused");
      }
      if (c == '/' || c == '~' || c > 0xffff || refused((char) c)) {
        name.append(escape(c));
      } else {
        if (value < 0) {
          value = name.length();
        }
        name.append((char) c);
      }
    }
  }

  private void endSegment() {
    String flaw = flaw(name.substring(start), start == 0);
    if (flaw != null) {
      // What a value did wrong, escaping its first character puts right.
      if (value < 0 || (flaw.equals("low-start") && value > start)) {
        throw new InvalidName(flaw);
      }
      name.replace(value, value + 1, escape(name.charAt(value)));
      // Unless the text before it is wrong, too.
      flaw = flaw(name.substring(start), start == 0);
      if (flaw != null) {
        throw new InvalidName(flaw);
      }
    }
    value = -1;
  }

  private static String flaw(String segment, boolean first) {
    if (segment.isEmpty()) {
      return "empty-segment";
    }
    if (segment.equals(".") || segment.equals("..")) {
      return "dots";
    }
    if (first) {
      return null;
    }
    if (segment.charAt(0) <= '0') {
      return "low-start";
    }
    return segment.equals("locks") || segment.equals("leases") ? "reserved" : null;
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
