import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/** Reads lines of an expression and subjects, with tabs between; prints which subjects match, or E for an error. */
public class Regexes {
    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            var told = new StringBuilder();
            try {
                Pattern pattern = Pattern.compile(parts[0]);
                for (int at = 1; at < parts.length; at++) {
                    told.append(pattern.matcher(parts[at]).matches() ? '1' : '0');
                }
            } catch (PatternSyntaxException error) {
                told = new StringBuilder("E");
            }
            out.println(told);
        }
    }
}
