package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/platform/fake"
	"edgespan/platform/store/backend"
)

// memory is a store in memory.
type memory = fake.Store

func newMemory() *memory { return fake.NewStore() }

// base is the source of the base files.
type base struct {
	mu     sync.Mutex
	docs   map[string]string // by version
	boards map[string]string
	types  map[string]map[string]string
}

func (b *base) Library() (layers.Library, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := layers.Library{Hardware: map[string][]string{}, Boards: b.boards}
	for name := range b.docs {
		l.Base = append(l.Base, name)
	}
	for name, versions := range b.types {
		for v := range versions {
			l.Hardware[name] = append(l.Hardware[name], v)
		}
	}
	return l, nil
}

func (b *base) Read(c layers.Choice) (layers.Set, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	set := layers.Set{}
	for layer, text := range map[layers.Layer]string{layers.Base: b.docs[c.Base],
		layers.Hardware: b.types[c.Type][c.Hardware]} {
		if text == "" {
			continue
		}
		o, faults := config.ParseObject([]byte(text))
		if len(faults) > 0 {
			return layers.Set{}, fmt.Errorf("%s.json: %w", c.Base, faults)
		}
		set[layer] = o
	}
	return set, nil
}

// issuer stands in for pki in a few lines: a token's hash is the hash of its text.
type issuer struct {
	mu      sync.Mutex
	made    int
	revoked []Revocation
}

// refusal returns why a node may not join.
func refusal(_ nodeproto.Joined, err error) error { return err }

func hashText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (i *issuer) Redeem(now time.Time, t Token, j nodeproto.Join) (Token, error) {
	switch {
	case t.Hash == "" || t.Hash != hashText(j.Token):
		return Token{}, errors.New("unknown token")
	case !now.Before(t.Expires):
		return Token{}, errors.New("token expired")
	case t.Used != nil && (t.Used.Node != j.Node || t.Used.Key != j.Key):
		return Token{}, errors.New("token already used")
	case t.Used == nil:
		t.Used = &TokenUse{Node: j.Node, Key: j.Key, At: now}
	}
	return t, nil
}

func (i *issuer) JoinTokenHash(text string) (string, error) { return hashText(text), nil }

func (i *issuer) text(what string) (text, hash string, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made++
	text = fmt.Sprintf("%s%d", what, i.made)
	return text, hashText(text), nil
}

func (i *issuer) NewJoinToken(name string, _ time.Time) (text, hash string, err error) {
	return i.text("esj-" + name + "-")
}

func (i *issuer) NewOperatorToken(name, _ string, _ time.Time) (text, hash string, err error) {
	return i.text("eso-" + name + "-")
}
func (i *issuer) Pin() string { return "ab12" }
func (i *issuer) Revoke(list []Revocation) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.revoked = list
	return nil
}

// rig is a set of controllers on one store, and nodes.
type rig struct {
	*testing.T
	store    *memory
	base     *base
	issuer   *issuer
	replicas map[string]*Controller
	nodes    map[string]*fakeNode
	streams  atomic.Uint64
	change   func(*Options)
	// wire gets what passes over a node's stream, in either direction; nil: everything passes
	wire func(at *Controller, n *fakeNode, m any, pass func())
	real bool // the clock is the machine's
}

// carry sends a message over a node's stream.
func (r *rig) carry(at *Controller, n *fakeNode, m any, pass func()) {
	if r.wire == nil {
		pass()
		return
	}
	r.wire(at, n, m, pass)
}

// settled waits until nothing is in progress.
func (r *rig) settled() {
	if !r.real {
		synctest.Wait()
	}
}

var testMetadata = func() *metadata.Metadata {
	text, err := os.ReadFile("../../config/testdata/terragraph/config_metadata.json")
	if err != nil {
		panic(err)
	}
	o, _ := config.ParseObject(text)
	m, faults := metadata.Parse(o, metadata.Options{})
	if faults != nil {
		panic(faults)
	}
	return m
}()

// onRig runs a test on a fake clock, with one controller "a" if the test starts none.
func onRig(t *testing.T, f func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer func() {
			for name := range r.replicas {
				r.stop(name)
			}
			for _, n := range r.nodes {
				n.cut()
			}
			r.pass(10 * time.Second) // the library's count of dead letters
		}()
		f(r)
	})
}

func newRig(t *testing.T) *rig {
	return &rig{
		T: t, store: newMemory(), issuer: &issuer{}, replicas: map[string]*Controller{}, nodes: map[string]*fakeNode{},
		base: &base{docs: map[string]string{"RELEASE_M20": `{"sysParams":{"managedConfig":true},"envParams":{"A":"1"}}`}},
	}
}

func (r *rig) start(name string) *Controller {
	r.Helper()
	o := Options{
		Store: r.store, Elector: elector, Replica: name, Log: zap.NewNop(), Base: r.base,
		Metadata: testMetadata, Issuer: r.issuer,
		Settings: fleet.Defaults(name), MaskKey: []byte("k"), NodeLink: "ctl:8444",
	}
	if os.Getenv("ES_LOG") != "" {
		o.Log, _ = zap.NewDevelopment()
	}
	if r.change != nil {
		r.change(&o)
	}
	c, err := Start(o)
	if err != nil {
		r.Fatal(err)
	}
	r.replicas[name] = c
	r.settled()
	return c
}

func (r *rig) stop(name string) {
	r.Helper()
	c := r.replicas[name]
	delete(r.replicas, name)
	for _, n := range r.nodes {
		if n.to == c {
			n.cut()
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		r.Error(err)
	}
	select {
	case err := <-c.Done():
		r.Errorf("controller %s ended by itself: %v", name, err)
	default:
	}
}

var alice = fleetapi.Caller{Name: "alice", Role: fleetapi.Admin}

func (r *rig) write(c *Controller, w ops.Write) fleetapi.Written {
	r.Helper()
	out, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: alice, Write: w, Message: "test"})
	if err != nil {
		r.Fatalf("write: %v", err)
	}
	synctest.Wait()
	return out
}

func (r *rig) doc(text string) config.Object {
	r.Helper()
	o, faults := config.ParseObject([]byte(text))
	if len(faults) > 0 {
		r.Fatal(faults)
	}
	return o
}

func (r *rig) network(c *Controller, text string) {
	r.Helper()
	r.write(c, ops.SetNetwork{Overrides: r.doc(text)})
}

// join creates a node that joins with a token.
func (r *rig) join(c *Controller, name string) *fakeNode {
	r.Helper()
	inv, err := c.Invite(r.Context(), alice, name, time.Hour, false)
	if err != nil {
		r.Fatal(err)
	}
	n := newFakeNode(r, name)
	if err := refusal(c.Join(r.Context(),
		nodeproto.Join{Token: inv.Token, Name: name, Node: n.id, Key: "key-" + name})); err != nil {
		r.Fatal(err)
	}
	synctest.Wait()
	return n
}

// node creates a node that joins and connects.
func (r *rig) node(c *Controller, name string) *fakeNode {
	r.Helper()
	n := r.join(c, name)
	n.connect(c)
	return n
}

// state returns a node's state and its reason.
func (r *rig) state(c *Controller, name string) (state, why string) {
	r.Helper()
	d, err := c.Node(r.Context(), name)
	if err != nil {
		r.Fatal(err)
	}
	return d.State, strings.Join(d.Explain, "\n")
}

func (r *rig) wants(c *Controller, name, state string) {
	r.Helper()
	synctest.Wait()
	if got, why := r.state(c, name); got != state {
		r.Errorf("node %s is %q, want %q:\n%s", name, got, state, why)
	}
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	r.settled()
}

func elector(s storage.Store) storage.Elect { return backend.Elector(s) }
