package loop

import (
	"crypto/tls"
	"crypto/x509"
)

var tlsVersions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

// TLS is what the command's settings say of it, with a cache of sessions; nil when they do not.
func (c Command) TLS() *tls.Config {
	trusted := c.Setting("tls_ca")
	if trusted == "" {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(trusted)) {
		panic("no certificate in tls_ca")
	}
	config := &tls.Config{RootCAs: pool, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	if version := tlsVersions[c.Setting("tls_version")]; version != 0 {
		config.MinVersion, config.MaxVersion = version, version
	}
	wanted := c.Setting("tls_ciphers")
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		if suite.Name == wanted {
			config.CipherSuites = []uint16{suite.ID}
		}
	}
	return config
}
