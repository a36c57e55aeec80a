package offline

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/platform/pki"
)

// Remote says which controller is asked, and how.
type Remote struct{ URL, TokenFile, CAFile, CAPin string }

// Client asks it.
func (r Remote) Client() (*fleetapi.Client, error) {
	o := fleetapi.Options{URL: r.URL}
	if r.TokenFile != "" {
		text, err := os.ReadFile(r.TokenFile)
		if err != nil {
			return nil, term.WithClass(term.ExitNotFound, fmt.Errorf("read token: %w", err))
		}
		o.Token = strings.TrimSpace(string(text))
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	o.Transport = t
	switch {
	case r.CAPin != "" && r.CAFile != "":
		return nil, term.Usagef("--ca-sha256 and --ca-file: one of them is allowed")
	case r.CAPin != "":
		pin, err := pki.ParsePin(r.CAPin)
		if err != nil {
			return nil, term.Usagef("--ca-sha256: %w", err)
		}
		u, err := url.Parse(r.URL)
		if err != nil {
			return nil, term.Usagef("--controller: %w", err)
		}
		t.TLSClientConfig = pki.PinnedTLS(pin, u.Hostname(), time.Now)
	case r.CAFile != "":
		c, err := pki.ClientFiles{CA: r.CAFile}.TLS()
		if err != nil {
			return nil, term.WithClass(term.ExitNotFound, err)
		}
		t.TLSClientConfig = c
	}
	client, err := fleetapi.NewClient(o)
	if err != nil {
		return nil, term.WithClass(term.ExitUsage, err)
	}
	return client, nil
}
