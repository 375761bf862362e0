package interop;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;

/** Bodies that the receiving side can compute again from the number of the message. */
final class Body {
    private Body() {
    }

    static byte[] make(Arguments arguments, int index) {
        if (arguments.has("body")) {
            return arguments.text("body").getBytes(StandardCharsets.UTF_8);
        }
        int size = arguments.number("size", 100);
        byte[] body = new byte[size];
        switch (arguments.text("kind", "text")) {
            case "text":
                Arrays.fill(body, (byte) '.');
                byte[] head = ("message-" + index).getBytes(StandardCharsets.US_ASCII);
                System.arraycopy(head, 0, body, 0, Math.min(head.length, size));
                return body;
            case "zeros":
                return body;
            case "bytes":
                for (int i = 0; i < size; i++) {
                    body[i] = (byte) (index * 31 + i * 7 + (i >> 8));
                }
                return body;
            default:
                throw new IllegalArgumentException("unknown body kind: " + arguments.text("kind"));
        }
    }

    static String sha1(byte[] body) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-1").digest(body);
            StringBuilder hex = new StringBuilder(40);
            for (byte b : digest) {
                hex.append(Character.forDigit((b >> 4) & 15, 16)).append(Character.forDigit(b & 15, 16));
            }
            return hex.toString();
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
