package firewall

import (
	"context"
	"fmt"

	"github.com/coreos/go-iptables/iptables"
)

// Backend says which iptables the host has, as "1.8.9", or why none can be used.
// The library runs a command without a deadline, so it is left alone at ctx's end:
// once, at start (design law 2's one exception).
func Backend(ctx context.Context) (string, error) {
	type answer struct {
		version string
		err     error
	}
	got := make(chan answer, 1)
	go func() {
		t, err := iptables.New()
		if err != nil {
			got <- answer{err: err}
			return
		}
		a, b, c := t.GetIptablesVersion()
		got <- answer{version: fmt.Sprintf("%d.%d.%d", a, b, c)}
	}()
	select {
	case a := <-got:
		if a.err != nil {
			return "", fmt.Errorf("find iptables: %w", a.err)
		}
		return a.version, nil
	case <-ctx.Done():
		return "", fmt.Errorf("find iptables: %w", ctx.Err())
	}
}
