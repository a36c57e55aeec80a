package daemon

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"go.uber.org/zap"

	nodemetrics "edgespan/actors/node/metrics"
	"edgespan/config/httpapi/metrics"
	"edgespan/platform/conns"
)

// metricsBounds are the bounds of the connections of --metrics, where anybody may connect who reaches the address.
var metricsBounds = conns.Bounds{UnknownNodes: 32, PerAddress: 8, Crowded: 2, Grace: 10 * time.Second}

// metricsAgain is how long the daemon waits before it tries again to listen: the address may come later.
const metricsAgain = 10 * time.Second

// metricsPage returns the page of a node's metrics.
func metricsPage(d runningNode, version string) *metrics.Page {
	return metrics.NewPage(&nodemetrics.Table, func(s *metrics.Scrape) { d.Scrape(version, s) })
}

// metricsAddress parses ADDR of --metrics: PORT, :PORT or IP:PORT. Without an IP it is that of the loopback.
func metricsAddress(text string) (string, error) {
	wrong := fmt.Errorf("--metrics: invalid value %q: must be PORT or IP:PORT", text)
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = "", text
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", wrong
	}
	if host == "" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return "", wrong
	}
	return net.JoinHostPort(ip.String(), port), nil
}

// serveMetrics serves a page until ctx ends. The node works without it: what keeps it from listening is logged once.
func serveMetrics(ctx context.Context, address string, page *metrics.Page, log *zap.Logger) {
	logged := ""
	for {
		err := listenMetrics(ctx, address, page)
		if ctx.Err() != nil {
			return
		}
		if err != nil && err.Error() != logged {
			logged = err.Error()
			log.Error("metrics are not served", zap.Error(err), zap.Duration("again_in", metricsAgain))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(metricsAgain):
		}
	}
}

func listenMetrics(ctx context.Context, address string, page *metrics.Page) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	return page.Serve(ctx, conns.Limit(l, metricsBounds))
}
