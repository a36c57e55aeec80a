package fleetapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
)

// Options are the address of a controller and the caller's credentials.
type Options struct {
	URL   string // "https://controller:8443"; a path before the routes is kept
	Token string // an operator token; "" for a controller without authentication
	// Transport sends the requests. Its TLSClientConfig (made by platform/pki) holds the trusted CAs; nil uses the
	// system's.
	Transport http.RoundTripper
}

// Client sends requests to a controller. Its errors are *Problem, which unwraps to the errors of config/httpapi/rest,
// or ErrUnreachable and ErrTimeout. Timeouts come from the contexts.
type Client struct{ *rest.Client }

// NewClient returns a client of the controller at a URL. It connects on the first request. It never follows a redirect,
// which would pass the token on.
func NewClient(o Options) (*Client, error) {
	u, err := rest.Endpoint(o.URL)
	if err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(u.String(), "/")
	c := &rest.Client{Name: base, Base: base, Transport: o.Transport,
		Refusal: func(status int, text []byte) error { return refusal(base, status, text) },
		Failed:  func(err error) error { return rest.Unreachable(base, err) },
		Authorize: func(r *http.Request) {
			if r.Method != http.MethodGet {
				r.Header.Set("Content-Type", "application/json")
			}
			if o.Token != "" {
				r.Header.Set("Authorization", "Bearer "+o.Token)
			}
		}}
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	return &Client{c}, nil
}

// request is one request.
type request = rest.Request

// document gets a route that answers with an object.
func (c *Client) document(ctx context.Context, path string, q url.Values) (ops.DocumentAnswer, error) {
	text, resp, err := c.Ask(ctx, request{Method: http.MethodGet, Path: path, Query: q})
	if err != nil {
		return ops.DocumentAnswer{}, err
	}
	d, err := documentOf(text, resp.Header)
	if err != nil {
		return ops.DocumentAnswer{}, fmt.Errorf("read answer of %s: %w", c.Name, err)
	}
	return d, nil
}

// documentOf parses an answer as a document.
func documentOf(text []byte, h http.Header) (ops.DocumentAnswer, error) {
	o, faults := config.ParseObject(text)
	if len(faults) > 0 {
		return ops.DocumentAnswer{}, errors.New(faults.Error())
	}
	// A document without revisions has another ETag, which is not a number.
	n, _ := strconv.ParseUint(strings.Trim(h.Get("ETag"), `"`), 10, 64)
	return ops.DocumentAnswer{Object: o, Revision: n, Digest: h.Get(DigestHeader)}, nil
}

// refusal returns the error for an unsuccessful answer.
func refusal(base string, status int, text []byte) error {
	var p Problem
	if json.Unmarshal(text, &p) != nil || p.Type == "" {
		return fmt.Errorf("%s answered status %d without a problem body: is it a controller?", base, status)
	}
	return &p
}
