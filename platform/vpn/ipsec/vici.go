package ipsec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/strongswan/govici/vici"

	"edgespan/platform/proc"
)

// client speaks VICI with one charon. It opens a session for each use, so that one that hangs holds up no other.
type client struct {
	path   string     // of its socket
	charon proc.Ident // no other process is spoken to
}

// client speaks with a recorded charon.
func (t *Tunnels) client(r record) client {
	return client{path: filepath.Join(t.folder(r.Name), socketFile), charon: r.Ident}
}

// request is a command of VICI with its arguments.
type request struct {
	cmd  string
	args map[string]any
}

// with calls f with a session.
func (c client) with(f func(*vici.Session) error) error {
	s, err := vici.NewSession(vici.WithDialContext(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialOwn(ctx, c.path, c.charon)
	}))
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

// do carries out requests one after the other. An error names the command, never its arguments.
func (c client) do(ctx context.Context, all ...request) error {
	return c.with(func(s *vici.Session) error {
		for _, r := range all {
			m, err := message(r.args)
			if err != nil {
				return fmt.Errorf("%s: %w", r.cmd, err)
			}
			if _, err := s.Call(ctx, r.cmd, m); err != nil {
				return fmt.Errorf("%s: %w", r.cmd, err)
			}
		}
		return nil
	})
}

// load replaces all secrets, keys and certificates.
func (c client) load(ctx context.Context, secrets []request) error {
	return c.do(ctx, append([]request{{"clear-creds", nil}}, secrets...)...)
}

// loadConn makes or replaces the connection, with the addresses of its peer; none is one that calls.
func (c client) loadConn(ctx context.Context, conn map[string]any, at []netip.Addr) error {
	conn = maps.Clone(conn)
	addrs := []string{"%any"}
	if len(at) > 0 {
		addrs = nil
		for _, a := range at {
			addrs = append(addrs, a.String())
		}
	}
	conn["remote_addrs"] = addrs
	return c.do(ctx, request{"load-conn", map[string]any{connName: conn}})
}

// hasConn reports whether charon answers and has the connection, by an error.
func (c client) hasConn(ctx context.Context) error {
	return c.with(func(s *vici.Session) error {
		m, err := s.Call(ctx, "get-conns", nil)
		if err != nil {
			return err
		}
		if names, _ := m.Get("conns").([]string); !slices.Contains(names, connName) {
			return errors.New("charon has lost the connection")
		}
		return nil
	})
}

// answers reports whether charon answers, by an error.
func (c client) answers(ctx context.Context) error { return c.do(ctx, request{"version", nil}) }

// initiate begins to make a child, and does not wait for it.
func (c client) initiate(ctx context.Context, child string) error {
	return c.do(ctx, request{"initiate", map[string]any{"ike": connName, "child": child, "timeout": "-1"}})
}

// terminate ends all that was agreed on with peers, and does not wait for their answers.
func (c client) terminate(ctx context.Context) error {
	err := c.do(ctx, request{"terminate", map[string]any{"ike": connName, "force": "yes", "timeout": "-1"}})
	if err != nil && ctx.Err() == nil {
		sas, lookErr := c.sas(ctx)
		if lookErr == nil && len(sas) == 0 {
			return nil // there is nothing to end, which VICI calls an error
		}
	}
	return err
}

// sa is an IKE_SA with its CHILD_SAs.
type sa struct {
	id, state                              string
	localHost, remoteHost, remotePort, who string
	established                            string // seconds
	vips                                   []string
	busy                                   bool // it has tasks with the peer
	initiator                              bool // this node has begun it
	children                               []childSA
}

type childSA struct {
	id, name, state, in, out     string
	bytesIn, bytesOut, installed string
}

// sas lists what was agreed on with peers.
func (c client) sas(ctx context.Context) ([]sa, error) {
	var out []sa
	err := c.with(func(s *vici.Session) error {
		for m, err := range s.CallStreaming(ctx, "list-sas", "list-sa", nil) {
			if err != nil {
				return err
			}
			for _, key := range m.Keys() {
				if one, ok := m.Get(key).(*vici.Message); ok && key == connName {
					out = append(out, saOf(one))
				}
			}
		}
		return nil
	})
	return out, err
}

func saOf(m *vici.Message) sa {
	x := sa{
		id: text(m, "uniqueid"), state: text(m, "state"), localHost: text(m, "local-host"),
		remoteHost: text(m, "remote-host"), remotePort: text(m, "remote-port"), who: text(m, "remote-id"),
		established: text(m, "established"), vips: texts(m, "local-vips"), initiator: text(m, "initiator") == "yes",
		busy: len(texts(m, "tasks-active"))+len(texts(m, "tasks-queued")) > 0,
	}
	if eap := text(m, "remote-eap-id"); eap != "" {
		x.who = eap
	}
	children, ok := m.Get("child-sas").(*vici.Message)
	if !ok {
		return x
	}
	for _, key := range children.Keys() {
		if one, ok := children.Get(key).(*vici.Message); ok {
			x.children = append(x.children, childSA{
				id: text(one, "uniqueid"), name: text(one, "name"), state: text(one, "state"), in: text(one, "spi-in"),
				out: text(one, "spi-out"), bytesIn: text(one, "bytes-in"), bytesOut: text(one, "bytes-out"),
				installed: text(one, "install-time"),
			})
		}
	}
	return x
}

func text(m *vici.Message, key string) string {
	s, _ := m.Get(key).(string)
	return s
}

func texts(m *vici.Message, key string) []string {
	s, _ := m.Get(key).([]string)
	return s
}

// message is a map as VICI has it: strings, lists of them, and maps.
func message(of map[string]any) (*vici.Message, error) {
	m := vici.NewMessage()
	for _, key := range slices.Sorted(maps.Keys(of)) {
		value := of[key]
		switch v := value.(type) {
		case map[string]any:
			inner, err := message(v)
			if err != nil {
				return nil, err
			}
			value = inner
		case []any: // from a record
			var all []string
			for _, one := range v {
				s, _ := one.(string)
				all = append(all, s)
			}
			value = all
		}
		if err := m.Set(key, value); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return m, nil
}
