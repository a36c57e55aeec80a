package nodeconf

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/netinst"
	"edgespan/netinst/probe"
)

// probeTarget is one item of probe.target. Its text is canonical, so that equal targets are equal.
type probeTarget struct {
	text string
	form targetForm
}

// targetForm is what kind of text a target is.
type targetForm uint8

const (
	targetAddr targetForm = iota
	targetHost
	targetHostPort
	targetURL
)

// probeForms maps each method to the targets that it can probe.
var probeForms = map[probe.Method]struct {
	forms []targetForm
	what  string
}{
	probe.ICMP: {[]targetForm{targetAddr, targetHost}, "IP addresses or host names"},
	probe.TCP:  {[]targetForm{targetHostPort}, "of the form HOST:PORT"},
	probe.HTTP: {[]targetForm{targetURL}, "http(s) URLs"},
	probe.DNS:  {[]targetForm{targetAddr}, "IP addresses of DNS servers"},
}

// maxTimeoutIntervals limits the timeout of a probe to this many intervals, which bounds the unanswered probes of one
// target: each is sent without waiting for the one before. The default timeout suits every allowed interval.
const maxTimeoutIntervals = 10

// readProbe reads how a network probes its uplinks. A value that equals the default is left out, so that configs with
// the same meaning are equal.
func (c *checker) readProbe(o *object) probe.Config {
	p := probe.Config{
		Method:       probe.Method(value[string](o, "method")),
		Interval:     unlessDefault(milliseconds(o, "intervalMs"), probe.DefaultInterval),
		Timeout:      unlessDefault(milliseconds(o, "timeoutMs"), probe.DefaultTimeout),
		FailAfter:    unlessDefault(value[int](o, "failAfter"), probe.DefaultFailAfter),
		RecoverAfter: unlessDefault(value[int](o, "recoverAfter"), probe.DefaultRecoverAfter),
		Hold:         unlessDefault(milliseconds(o, "holdMs"), probe.DefaultHold),
		Quorum:       unlessDefault(value[int](o, "quorum"), 1),
		MaxLoss:      value[int](o, "maxLoss"),
		MaxLatency:   milliseconds(o, "maxLatencyMs"),
		Body:         value[string](o, "body"),
	}
	for _, t := range items[probeTarget](o, "target") {
		p.Targets = append(p.Targets, t.text)
	}
	c.checkTargets(o, p)
	c.checkTimings(o, p)
	return p
}

func milliseconds(o *object, key string) time.Duration {
	return time.Duration(value[int](o, key)) * time.Millisecond
}

// unlessDefault returns the zero value for a value that equals the default.
func unlessDefault[T comparable](v, ofDefault T) T {
	if v == ofDefault {
		var zero T
		return zero
	}
	return v
}

// checkTargets compares the targets with their method and with the quorum.
func (c *checker) checkTargets(o *object, p probe.Config) {
	if o.isInvalid("method") || o.isInvalid("target") {
		return
	}
	fits := probeForms[p.Method]
	switch {
	case p.Method == "" && len(p.Targets) > 0:
		c.addFault(o.pathOf("method"), config.Required+" with target", config.MustBe("icmp, tcp, http or dns"))
	case p.Method != "" && len(p.Targets) == 0:
		c.addFault(o.pathOf("target"), config.Required+" with method", config.MustBe(fits.what))
	}
	if p.Body != "" && p.Method != probe.HTTP {
		c.addFault(o.pathOf("body"), "no page to find it in", "must be with method http")
	}
	var bad []string
	for _, t := range items[probeTarget](o, "target") {
		if p.Method != "" && !slices.Contains(fits.forms, t.form) {
			bad = append(bad, config.Quote(t.text))
		}
	}
	if len(bad) > 0 {
		c.addFault(o.pathOf("target"), config.InvalidValue(shownItems(bad)), "for method "+string(p.Method)+" "+
			config.MustBe(fits.what))
	}
	if n := len(p.Targets); p.Quorum > n { // never 1, which is the default
		allowed := fmt.Sprintf("must be at most %d, the number of targets", n)
		if n == 0 {
			allowed = "must be 1 without target"
		}
		c.addFault(o.pathOf("quorum"), config.InvalidValue(strconv.Itoa(p.Quorum)), allowed)
	}
}

// checkTimings compares the timeout with the interval and with the limit of latency, which no answer could exceed.
func (c *checker) checkTimings(o *object, p probe.Config) {
	if o.isInvalid("timeoutMs") {
		return
	}
	interval, timeout := cmp.Or(p.Interval, probe.DefaultInterval), cmp.Or(p.Timeout, probe.DefaultTimeout)
	if longest := maxTimeoutIntervals * interval; timeout > longest && !o.isInvalid("intervalMs") {
		c.addFault(o.pathOf("timeoutMs"), config.InvalidValue(strconv.FormatInt(timeout.Milliseconds(), 10)),
			fmt.Sprintf("must be at most %d, %d times intervalMs", longest.Milliseconds(), maxTimeoutIntervals))
	}
	if p.MaxLatency > timeout {
		c.addFault(o.pathOf("maxLatencyMs"), config.InvalidValue(strconv.FormatInt(p.MaxLatency.Milliseconds(), 10)),
			fmt.Sprintf("must be at most %d, by timeoutMs", timeout.Milliseconds()))
	}
}

// parseTarget parses a target of any method.
func parseTarget(s string) (probeTarget, bool) {
	if strings.Contains(s, "://") {
		u, ok := parseTargetURL(s)
		return probeTarget{u, targetURL}, ok
	}
	if strings.HasPrefix(s, "[") || strings.Count(s, ":") == 1 {
		text, ok := parseTargetHostPort(s)
		return probeTarget{text, targetHostPort}, ok
	}
	h, form, ok := parseTargetHost(s)
	return probeTarget{h, form}, ok
}

// parseTargetHostPort parses a host and its port; an IPv6 address is in brackets.
func parseTargetHostPort(s string) (string, bool) {
	at := max(strings.LastIndexByte(s, ':'), 0)
	host, inBrackets := strings.CutPrefix(s[:at], "[")
	if inBrackets {
		host, inBrackets = strings.CutSuffix(host, "]")
	}
	h, _, ok := parseTargetHost(host)
	n, okPort := parsePort(s[min(at+1, len(s)):])
	return fmt.Sprintf("%s:%d", inURL(h), n), ok && okPort && inBrackets == strings.Contains(h, ":")
}

// inURL returns a host as it stands in a URL: an IPv6 address in brackets.
func inURL(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// parseTargetHost parses an IP address or a host name. No top-level domain consists of digits (RFC 3696), so such a
// name is a mistyped address.
func parseTargetHost(s string) (string, targetForm, bool) {
	if a, ok := parseIPv4(s); ok {
		return a.String(), targetAddr, true
	}
	if a, ok := parseIPv6(s); ok {
		return a.String(), targetAddr, true
	}
	h, err := netinst.ParseHostname(s)
	top := string(h)[strings.LastIndexByte(string(h), '.')+1:]
	return string(h), targetHost, err == nil && strings.Trim(top, "0123456789") != ""
}

func parseTargetURL(s string) (string, bool) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || !isPlainURL(u, s) {
		return "", false
	}
	host, _, ok := parseTargetHost(u.Hostname())
	host = inURL(host)
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		n, okPort := parsePort(port)
		host, ok = fmt.Sprintf("%s:%d", host, n), ok && okPort
	}
	return u.Scheme + "://" + host + u.RequestURI(), ok
}

// isPlainURL reports whether a URL has neither user nor fragment, and only characters that need no quotes anywhere.
func isPlainURL(u *url.URL, s string) bool {
	return u.User == nil && u.Fragment == "" && !strings.HasSuffix(s, "#") && len(s) <= 255 &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"<>\\^`{|}$", r) })
}

// warnOfUnusedProbe warns of the probes of a network without uplinks. It is no fault: a later layer may take away a
// network's port.
func (c *checker) warnOfUnusedProbe(o *object, ni netinst.NetworkInstanceConfig) {
	if ni.Port == "" && !o.isInvalid("port") && o.isGiven("probe") {
		c.cfg.Warnings = append(c.cfg.Warnings, config.Fault{Path: o.pathOf("probe"), Problem: "no effect",
			Expectation: "an air-gapped network has no uplink to probe"})
	}
}

// warnOfUnusedBudget warns of a budget of a port whose probes have none. It is no fault: a later layer may change
// metered.
func (c *checker) warnOfUnusedBudget(o *object, p netinst.PortConfig) {
	if !p.Metered && o.isGiven("probeBytesPerDay") {
		c.cfg.Warnings = append(c.cfg.Warnings, config.Fault{Path: o.pathOf("probeBytesPerDay"), Problem: "no effect",
			Expectation: "the port is not metered"})
	}
}
