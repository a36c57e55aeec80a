package probe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"edgespan/platform/pki"
)

// What is read of an answer at most: of its head, and of a page in which a text is searched, encoded and as it is.
const (
	maxHead    = 4 << 10
	maxPage    = 64 << 10
	maxEncoded = maxPage + maxPage/4
)

// http requests a URL by one connection. The answer must have a status below 300: a redirection is what a captive
// portal answers, and it is not followed. Other portals answer a page of their own: text, if it is not "", must be in
// the page. net/http's client is not used because its goroutines and connections can outlast a request.
func (s shot) http(ctx context.Context, target, text string) (time.Duration, error) {
	u, err := url.Parse(target)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return 0, errors.New("invalid target: must be a URL such as http://HOST/PATH or https://HOST/PATH") // no password
	}
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	buffer := littleRead
	if text != "" {
		buffer = 0
	}
	sock, done, began, err := s.dial(ctx, u.Hostname(), port, buffer)
	if err != nil {
		return 0, err
	}
	defer done()
	var conn net.Conn = fileConn{sock}
	if u.Scheme == "https" {
		if conn, err = pki.WebHandshake(conn, u.Hostname()); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return 0, fmt.Errorf("no TLS handshake with %s", u.Hostname())
			}
			return 0, err
		}
	}
	status, location, page, err := get(conn, u)
	took := time.Since(began)
	switch {
	case err != nil: // no answer, the end of the connection, or no HTTP
		return 0, fmt.Errorf("no HTTP answer from %s", u.Host)
	case status >= 400:
		return 0, fmt.Errorf("%s answers %s", u.Host, strings.TrimSpace(strconv.Itoa(status)+" "+http.StatusText(status)))
	case status >= 300:
		return 0, fmt.Errorf("redirected to %s", hostOf(location, u))
	}
	if text != "" {
		if found, err := pageHas(page, text); err != nil {
			return 0, fmt.Errorf("no page from %s", u.Host)
		} else if !found {
			return 0, fmt.Errorf("%s answers another page", u.Host)
		}
	}
	leave(sock)
	return took, nil
}

// pageHas reads an answer behind its status line, and reports whether the page has a text.
func pageHas(answer io.Reader, text string) (bool, error) {
	status := strings.NewReader("HTTP/1.1 200 OK\r\n")
	r, err := http.ReadResponse(bufio.NewReader(io.MultiReader(status, answer)), nil)
	if err != nil {
		return false, err
	}
	// The body is not closed, which would read all of it: the connection is.
	page := make([]byte, 0, maxPage)
	for err == nil && len(page) < maxPage {
		n, from := 0, max(0, len(page)-len(text)+1)
		n, err = r.Body.Read(page[len(page):maxPage])
		if page = page[:len(page)+n]; bytes.Contains(page[from:], []byte(text)) {
			return true, nil
		}
	}
	if err != io.EOF {
		return false, err
	}
	return false, nil
}

// get sends a request and returns the status of the answer, and where it points to. Of an answer with a page, the rest
// after the status line is still to be read.
func get(conn net.Conn, u *url.URL) (status int, location string, page io.Reader, err error) {
	request := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Close: true,
		Header: http.Header{"User-Agent": {"edgespan"}, "Accept": {"*/*"}}}
	if u.User != nil {
		password, _ := u.User.Password()
		request.SetBasicAuth(u.User.Username(), password)
	}
	if err := request.Write(conn); err != nil {
		return 0, "", nil, err
	}
	head := &io.LimitedReader{R: conn, N: maxHead}
	rest := bufio.NewReader(head)
	lines := textproto.NewReader(rest)
	for status < 200 { // a server may first tell to go on (RFC 9110 §15.2)
		line, err := lines.ReadLine()
		if err != nil {
			return 0, "", nil, err
		}
		if status, err = parseStatus(line); err != nil {
			return 0, "", nil, err
		}
		if status >= 200 && status < 300 || status >= 400 {
			head.N += maxEncoded
			break
		}
		if location, err = readLocation(lines); err != nil && status < 200 {
			return 0, "", nil, err
		}
	}
	return status, location, rest, nil
}

// parseStatus reads a status line (RFC 9112 §4).
func parseStatus(line string) (int, error) {
	version, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	status, err := strconv.ParseUint(code, 10, 16)
	if _, _, ok := http.ParseHTTPVersion(version); !ok || err != nil || len(code) != 3 || status < 100 {
		return 0, fmt.Errorf("invalid status line %q", line)
	}
	return int(status), nil
}

// readLocation reads header lines to their end, and returns the one of a redirection.
func readLocation(lines *textproto.Reader) (location string, err error) {
	for {
		line, err := lines.ReadLine()
		if err != nil || line == "" {
			return location, err
		}
		if name, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(name, "Location") {
			location = strings.TrimSpace(value)
		}
	}
}

// hostOf returns the host of a redirection from u. It becomes part of an event, so it can't be just any text.
func hostOf(location string, from *url.URL) string {
	u, err := from.Parse(location)
	if err != nil || u.Hostname() == "" || len(u.Hostname()) > 253 || strings.ContainsFunc(u.Hostname(), notInName) {
		return "another page"
	}
	return u.Hostname()
}

func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(".-_:", r)
}

// fileConn is a connected socket.
type fileConn struct{ *os.File }

// LocalAddr and RemoteAddr complete net.Conn.
func (fileConn) LocalAddr() net.Addr  { return &net.TCPAddr{} }
func (fileConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }
