import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.security.cert.X509Certificate;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;

/** Makes a TLS connection for each line of stdin, "PORT PROTOCOL", and says when it is done. */
public class LoggedClient implements X509TrustManager {
    public static void main(String[] words) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, new TrustManager[] {new LoggedClient()}, null);
            String[] asked = line.split(" ");
            try (SSLSocket made = (SSLSocket) context.getSocketFactory()
                    .createSocket("127.0.0.1", Integer.parseInt(asked[0]))) {
                made.setEnabledProtocols(new String[] {asked[1]});
                made.startHandshake();
                made.getOutputStream().write(1);
            }
            System.out.println("done");
        }
    }

    public void checkClientTrusted(X509Certificate[] chain, String type) {}

    public void checkServerTrusted(X509Certificate[] chain, String type) {}

    public X509Certificate[] getAcceptedIssuers() {
        return new X509Certificate[0];
    }
}
