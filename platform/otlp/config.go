package otlp

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"edgespan/platform/pki"
)

// Config says where spans go.
type Config struct {
	Endpoint string      // URL of the requests; "" for no tracing
	CA       string      // PEM file of the collector's CAs; "" for those of the machine
	Headers  http.Header // of each request; may hold secrets
	Ratio    float64     // share of the traces that start here
}

// Standard environment variables (https://opentelemetry.io/docs/specs/otel/protocol/exporter/).
const (
	envBase    = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTraces  = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envHeaders = "OTEL_EXPORTER_OTLP_HEADERS"
	tracesPath = "/v1/traces"
)

// Options are the values of a program's flags, "" for one that is not given.
type Options struct{ Endpoint, CA, Ratio string }

// Configure returns the Config of the flags, else of the environment. Its errors name the flag and repeat no URL, which
// may hold a password.
func Configure(o Options, env func(string) string) (Config, error) {
	c := Config{CA: o.CA, Ratio: 1}
	var err error
	switch {
	case o.Endpoint != "":
		c.Endpoint, err = endpoint("--trace-endpoint", o.Endpoint, false)
	case env(envTraces) != "":
		c.Endpoint, err = endpoint(envTraces, env(envTraces), false)
	case env(envBase) != "":
		c.Endpoint, err = endpoint(envBase, env(envBase), true)
	}
	if o.Ratio != "" {
		r, wrong := strconv.ParseFloat(o.Ratio, 64)
		if c.Ratio = r; wrong != nil || !(r >= 0 && r <= 1) {
			err = errors.Join(err, fmt.Errorf("--trace-ratio: invalid value %.40q: must be 0 to 1", o.Ratio))
		}
	}
	if c.Endpoint != "" {
		var wrong error
		c.Headers, wrong = headers(env(envHeaders))
		err = errors.Join(err, wrong)
	}
	return c, err
}

// endpoint checks a URL. One without a path gets the standard one; base adds it to any.
func endpoint(name, text string, base bool) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" {
		return "", fmt.Errorf("%s: invalid URL: must be http://HOST:PORT or https://HOST:PORT, with or without a path", name)
	}
	if path := strings.TrimSuffix(u.Path, "/"); base || path == "" {
		u.Path = path + tracesPath
	}
	return u.String(), nil
}

// headers reads KEY=VALUE pairs, separated by commas, with values in the encoding of URLs.
func headers(text string) (http.Header, error) {
	h := http.Header{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !ok || err != nil || !isToken(key) || strings.ContainsAny(value, "\r\n\x00") {
			return nil, fmt.Errorf("%s: invalid value: must be KEY=VALUE pairs separated by commas", envHeaders)
		}
		h.Set(key, value)
	}
	return h, nil
}

// isToken reports whether a text can be the name of a header.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// client returns the HTTP client of an exporter, with one connection.
func (c Config) client() (*http.Client, error) {
	settings, err := pki.ClientFiles{CA: c.CA}.TLS()
	if err != nil {
		return nil, fmt.Errorf("--trace-ca: %w", err)
	}
	return &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: settings, MaxConnsPerHost: 1,
			IdleConnTimeout: time.Minute},
		// A collector does not move; following it elsewhere would send the headers there.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
