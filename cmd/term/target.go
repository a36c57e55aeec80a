package term

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"edgespan/config/httpapi/fleetapi"
	"edgespan/platform/pki"
)

// Target is a controller with its credentials. Empty fields are not set.
type Target struct {
	Controller string `json:"controller"           yaml:"controller"`
	TokenFile  string `json:"tokenFile,omitempty"  yaml:"tokenFile,omitempty"`
	CAFile     string `json:"caFile,omitempty"     yaml:"caFile,omitempty"`
	CASHA256   string `json:"caSha256,omitempty"   yaml:"caSha256,omitempty"`
}

// Check refuses a target that can't work or would send the token unencrypted over a network.
func (t Target) Check() error {
	if t.Controller == "" {
		return Required("--controller", "https://HOST:PORT")
	}
	u, err := url.Parse(t.Controller)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "":
		return Invalid("--controller", t.Controller, "https://HOST:PORT")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return Invalid("--controller", t.Controller,
			"https://HOST:PORT; plain http would reveal the token and is accepted for loopback addresses only")
	case t.CAFile != "" && t.CASHA256 != "":
		return Exclusive("--ca-file", "--ca-sha256")
	}
	if t.CASHA256 != "" {
		if _, err := pki.ParsePin(t.CASHA256); err != nil {
			return Usagef("--ca-sha256: %w", err)
		}
	}
	return nil
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// Client returns a client of the controller.
func (t Target) Client() (*fleetapi.Client, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	o := fleetapi.Options{URL: t.Controller}
	var err error
	if t.TokenFile != "" {
		if o.Token, err = ReadToken(t.TokenFile); err != nil {
			return nil, err
		}
	}
	if o.Transport, err = t.Transport(); err != nil {
		return nil, err
	}
	c, err := fleetapi.NewClient(o)
	if err != nil {
		return nil, WithClass(ExitUsage, err)
	}
	return c, nil
}

// Transport returns a transport that verifies the controller's certificate by the file of its CA, the pin of its CA,
// or the system's CAs.
func (t Target) Transport() (*http.Transport, error) {
	// No proxy: only the controller may see the token, and it is nearby.
	out := &http.Transport{ForceAttemptHTTP2: true}
	if t.CASHA256 != "" {
		pin, err := pki.ParsePin(t.CASHA256)
		if err != nil {
			return nil, Usagef("--ca-sha256: %w", err)
		}
		u, err := url.Parse(t.Controller)
		if err != nil {
			return nil, Usagef("--controller: %w", err)
		}
		out.TLSClientConfig = pki.PinnedTLS(pin, u.Hostname(), time.Now)
		return out, nil
	}
	var text []byte
	var err error
	if t.CAFile != "" {
		if text, err = os.ReadFile(t.CAFile); err != nil {
			return nil, fmt.Errorf("read CA: %w", Unreadable(err))
		}
		if len(text) == 0 { // else the system's CAs would be trusted
			return nil, Usagef("--ca-file: %s: empty file: must be PEM", t.CAFile)
		}
	}
	if out.TLSClientConfig, err = pki.ClientTLS(text); err != nil {
		return nil, Usagef("--ca-file: %s: %w", t.CAFile, err)
	}
	return out, nil
}

// ReadToken reads the one line of a token file. Its errors never quote the file.
func ReadToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read token: %w", Unreadable(err))
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", Usagef("--token-file: %s: no token: must be one line of printable characters", file)
	}
	return token, nil
}

// Absolute makes the file names absolute, so that they work in each folder.
func (t *Target) Absolute() error {
	for _, p := range []*string{&t.TokenFile, &t.CAFile} {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return fmt.Errorf("resolve %s: %w", *p, err)
		}
		*p = abs
	}
	return nil
}
