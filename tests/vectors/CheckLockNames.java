import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** Checks LockNames against the vectors: {@code CheckLockNames lock-names.json}. */
public final class CheckLockNames {
  public static void main(String[] arguments) throws Exception {
    byte[] bytes = Files.readAllBytes(Paths.get(arguments[0]));
    Map<?, ?> vectors = (Map<?, ?>) new Json(new String(bytes, StandardCharsets.UTF_8)).value();
    List<Object> all = new ArrayList<>((List<?>) vectors.get("literals"));
    all.addAll((List<?>) vectors.get("patterns"));
    int wrong = 0;
    for (Object each : all) {
      Map<?, ?> vector = (Map<?, ?>) each;
      Map<String, Object> got = outcome(vector);
      for (String key : List.of("path", "length", "error")) {
        if (!Objects.equals(vector.get(key), got.get(key))) {
          wrong++;
          System.out.println("wrong: " + vector + " gave " + got);
        }
      }
    }
    System.out.println(all.size() + " vectors, " + wrong + " wrong");
    System.exit(wrong == 0 ? 0 : 1);
  }

  private static Map<String, Object> outcome(Map<?, ?> vector) {
    Object given = vector.get("times");
    int times = given == null ? 1 : (Integer) given;
    try {
      String name;
      if (vector.containsKey("name")) {
        name = LockNames.literal(((String) vector.get("name")).repeat(times));
      } else {
        Object[] parts = ((List<?>) vector.get("parts")).toArray();
        for (int at = 1; at < parts.length; at += 2) {
          parts[at] = ((String) parts[at]).repeat(times);
        }
        name = LockNames.pattern(parts);
      }
      return given == null
          ? Map.of("path", LockNames.path("/zklock", name))
          : Map.of("length", name.getBytes(StandardCharsets.UTF_8).length);
    } catch (LockNames.InvalidName flaw) {
      return Map.of("error", flaw.getMessage());
    }
  }

  /** As much of JSON as the vectors use. */
  private static final class Json {
    private final String text;
    private int at = 0;

    Json(String text) {
      this.text = text;
    }

    Object value() {
      switch (next()) {
        case '{':
          Map<String, Object> map = new HashMap<>();
          while (more('}')) {
            String key = (String) value();
            expect(':');
            map.put(key, value());
          }
          return map;
        case '[':
          List<Object> list = new ArrayList<>();
          while (more(']')) {
            list.add(value());
          }
          return list;
        case '"':
          return string();
        default:
          int start = --at;
          while (Character.isDigit(text.charAt(at))) {
            at++;
          }
          return Integer.valueOf(text.substring(start, at));
      }
    }

    private String string() {
      StringBuilder string = new StringBuilder();
      for (char c = text.charAt(at++); c != '"'; c = text.charAt(at++)) {
        if (c != '\\') {
          string.append(c);
          continue;
        }
        char escaped = text.charAt(at++);
        switch (escaped) {
          case 'u':
            string.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
            at += 4;
            break;
          case 'n':
            string.append('\n');
            break;
          case '"':
          case '\\':
          case '/':
            string.append(escaped);
            break;
          default:
            throw new IllegalStateException("\\" + escaped + " at " + at);
        }
      }
      return string.toString();
    }

    /** Whether another element follows, having read the comma in front of it. */
    private boolean more(char end) {
      char c = next();
      if (c == end) {
        return false;
      }
      if (c != ',') {
        at--;
      }
      return true;
    }

    private void expect(char wanted) {
      if (next() != wanted) {
        throw new IllegalStateException("no " + wanted + " at " + at);
      }
    }

    private char next() {
      while (Character.isWhitespace(text.charAt(at))) {
        at++;
      }
      return text.charAt(at++);
    }
  }
}
