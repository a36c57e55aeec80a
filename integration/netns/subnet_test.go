package netns_test

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestAGatewayMovesWithinItsSubnet(t *testing.T) {
	l := newLab(t)
	l.must(ground, root())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, gateway := range []string{"", "gateway: 10.1.0.254, ", "gateway: 10.1.0.7, ", ""} {
		config := strings.Replace(l.networkDoc(1), "subnet: 10.1.0.0/24", gateway+"subnet: 10.1.0.0/24, dhcpRange: 10.1.0.100-10.1.0.200", 1)
		want := l.wishes(config, wishes{}).nets[1]
		if fs := l.apply(ctx, owner(1), want); len(fs) > 0 {
			t.Fatalf("%s: %+v", gateway, fs)
		}
		l.equal(owner(1), want)
	}
}
