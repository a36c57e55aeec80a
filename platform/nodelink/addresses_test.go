package nodelink

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"
)

// deaf is an address where nobody answers: what connects is closed at once.
func deaf(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return l.Addr().String()
}

func TestAddresses(t *testing.T) {
	got, err := Addresses("a:1, [::1]:2 ,c.example:3")
	if err != nil || !slices.Equal(got, []string{"a:1", "[::1]:2", "c.example:3"}) {
		t.Errorf("%q, %v", got, err)
	}
	for _, wrong := range []string{"", "a", "a:1,", ",a:1", "a:1,b", "a:1,a:1", ":1", "a:"} {
		if _, err := Addresses(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	if _, err := Addresses("a,b:1,c"); err == nil || strings.Count(err.Error(), "HOST:PORT") != 2 {
		t.Errorf("not all faults at once: %v", err)
	}
}

// A stream that ends is followed by one to the next controller of the list, and after the
// last comes the first.
func TestANodeGoesToTheNextController(t *testing.T) {
	r := newRig(t)
	other := newProxy(t, r.addr)
	all := []string{r.addr, deaf(t), other.addr}
	n := r.run(t, r.joined(t), func(o *ClientOptions) { o.Controller = strings.Join(all, ",") })
	passed := func() int {
		other.mu.Lock()
		defer other.mu.Unlock()
		return len(other.conns) / 2
	}
	for round, want := range []int{0, 1, 1, 2} {
		take(t, n.up)
		e := take(t, r.up)
		if got := passed(); got != want {
			t.Fatalf("stream %d: %d went through the last address, want %d", round, got, want)
		}
		e.s.End("go on")
		take(t, n.down)
	}
}

// A controller that is refused at is not the end either: another one may know more.
func TestARefusedNodeAsksTheNextController(t *testing.T) {
	r, foreign := newRig(t), newRig(t)
	cred := r.joined(t)
	n := r.run(t, cred, func(o *ClientOptions) { o.Controller = foreign.addr + "," + r.addr })
	take(t, n.up)
	if e := take(t, r.up); e.h.Node != cred.Node().String() {
		t.Errorf("hello of %s", e.h.Node)
	}
}

// A join asks the next controller where one does not answer, and does not go on with a
// token that was refused.
func TestAJoinAsksTheNextController(t *testing.T) {
	r := newRig(t)
	dead := deaf(t)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	o := JoinOptions{Controller: dead + "," + r.addr, Token: r.token(t, "edge-1", time.Hour), Name: "edge-1",
		Pin: r.ca.Pin(), Credentials: r.fresh(t)}
	if name, err := Join(ctx, o); err != nil || name != "edge-1" {
		t.Fatalf("%q, %v", name, err)
	}
	o.Credentials = r.fresh(t)
	o.Controller = r.addr + "," + dead
	_, err := Join(ctx, o)
	if refused := new(Refused); !errors.As(err, &refused) || strings.Contains(err.Error(), dead) {
		t.Errorf("a spent token: %v", err)
	}
	o.Controller = dead + "," + deaf(t)
	if _, err := Join(ctx, o); err == nil || strings.Count(err.Error(), "join 127.0.0.1:") != 2 {
		t.Errorf("two that don't answer: %v", err)
	}
}

// The address of a controller that is known by its name is told before it is dialed, also if nobody answers there.
func TestTheAddressOfANameIsTold(t *testing.T) {
	_, port, err := net.SplitHostPort(deaf(t))
	if err != nil {
		t.Fatal(err)
	}
	dialed := make(chan netip.Addr, 16)
	conn, err := connect(net.JoinHostPort("localhost", port), insecure.NewCredentials(), Keepalive{},
		func(a netip.Addr) {
			select {
			case dialed <- a:
			default:
			}
		})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Connect()
	if a := take(t, dialed); !a.IsLoopback() {
		t.Errorf("dialed %s", a)
	}
}
