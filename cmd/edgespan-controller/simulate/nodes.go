package simulate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/agent"
	"edgespan/actors/simulate"
	"edgespan/cmd/edgespan-controller/serve"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/httpapi/rest"
	"edgespan/config/layers"
	"edgespan/config/layers/schema"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/platform/confdir"
	"edgespan/platform/nodelink"
	"edgespan/platform/pki"
	"edgespan/platform/store"
	"edgespan/pubsub/backoff"
)

// Where the simulated nodes store their state.
const (
	diskFolder = "folder"
	diskMemory = "memory"
)

// tokenLife is the lifetime of a simulated node's invitation.
const tokenLife = time.Hour

// joinTries is how often a node tries to join: its connection may fail while many others connect.
const joinTries = 10

// joinAll gets a certificate for each node; nodes of an earlier run already have one.
func (m *simulator) joinAll(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	names := make(chan string)
	var mu sync.Mutex
	joined := 0
	for range m.joins {
		group.Go(func() {
			for name := range names {
				if err := m.joinOne(ctx, name); err != nil {
					cancel(fmt.Errorf("join %s: %w", name, err))
					return
				}
				mu.Lock()
				joined++
				if now := time.Now(); now.Sub(m.said) >= progressEvery {
					m.said = now
					m.app.Printf("joined %d of %d", joined, m.nodes)
				}
				mu.Unlock()
			}
		})
	}
	for _, name := range m.names {
		select {
		case names <- name:
		case <-ctx.Done():
		}
	}
	close(names)
	group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (m *simulator) folder(name string) string { return filepath.Join(m.dir, "nodes", name) }

// addressFile is the file with the address of a node's controller.
const addressFile = "controller"

func (m *simulator) credentials(name string) (*pki.Credentials, error) {
	id, err := store.NodeID(m.folder(name))
	if err != nil {
		return nil, err
	}
	return pki.OpenCredentials(m.folder(name), id, nil)
}

func (m *simulator) joinOne(ctx context.Context, name string) error {
	if err := os.MkdirAll(m.folder(name), 0o755); err != nil {
		return err
	}
	c, err := m.credentials(name)
	if !errors.Is(err, pki.ErrNotJoined) {
		return err
	}
	var address string
	tries := joinTries
	err = retryBusy(ctx, func() error {
		i, err := m.client.Invite(ctx, name, tokenLife, false)
		if err != nil {
			return err
		}
		pin, err := pki.ParsePin(i.CA)
		if err != nil {
			return fmt.Errorf("the controller's fingerprint: %w", err)
		}
		if address, err = joinTarget(i.Command); err != nil {
			return err
		}
		return retryBusy(ctx, func() error {
			_, err := nodelink.Join(ctx,
				nodelink.JoinOptions{Controller: address, Token: i.Token, Name: name, Pin: pin, Credentials: c})
			var refused *nodelink.Refused
			if tries--; err != nil && tries > 0 && !errors.As(err, &refused) { // a crowd of others connects
				return fmt.Errorf("%w: %w", nodelink.ErrBusy, err)
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(m.folder(name), addressFile), []byte(address), 0o644)
}

// joinTarget returns the address in a join command.
func joinTarget(command string) (string, error) {
	words := strings.Fields(command)
	i := slices.Index(words, "--controller")
	if i < 0 || i+1 == len(words) {
		return "", fmt.Errorf("join command %.80q: no --controller", command)
	}
	return words[i+1], nil
}

// retryBusy retries what a busy controller refuses: ten thousand nodes can't join at once.
func retryBusy(ctx context.Context, do func() error) error {
	waits := backoff.Backoff{First: 100 * time.Millisecond, Max: 2 * time.Second}
	for wait := waits.First; ; wait = waits.Next(wait) {
		err := do()
		if err == nil || ctx.Err() != nil || !errors.Is(err, rest.ErrBusy) && !errors.Is(err, nodelink.ErrBusy) {
			return err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

// cord is the stream of one node.
type cord struct {
	m    *simulator
	name string
}

func (m *simulator) streamOf(node int) simulate.Stream { return cord{m, m.names[node]} }

// Run connects with the node's certificate, and reconnects.
func (c cord) Run(ctx context.Context, hello func() nodeproto.Hello, l simulate.Listener) error {
	creds, err := c.m.credentials(c.name)
	if err != nil {
		return err
	}
	address, err := os.ReadFile(filepath.Join(c.m.folder(c.name), addressFile))
	if err != nil {
		return err
	}
	return nodelink.NewClient(nodelink.ClientOptions{
		Controller: string(address), Credentials: creds, Hello: hello, Listener: l,
	}).Run(ctx)
}

// latestBase returns the base layers of a node without a config: the latest one, by name.
func (m *simulator) latestBase() (map[string]config.Object, error) {
	stack := confdir.NewStack(schema.NodeBases(), string(m.BaseDir))
	lib, err := stack.Library()
	if err != nil {
		return nil, term.Missing(err)
	}
	choice := lib.Choose(layers.Versions{Software: m.software})
	set, err := stack.Read(choice)
	if err != nil {
		return nil, term.Missing(err)
	}
	return map[string]config.Object{choice.Base: set[layers.Base]}, nil
}

// nodeFacts returns the facts of each node and the validator of the nodes.
func (m *simulator) nodeFacts() (func(name string) agent.NodeFacts, agent.Validator, error) {
	meta, err := serve.NodeMetadata(m.Metadata, zap.NewNop()) // the controller logs their conflicts
	if err != nil {
		return nil, nil, err
	}
	bases, err := m.latestBase()
	if err != nil {
		return nil, nil, err
	}
	if m.software == "" {
		for name := range bases {
			m.software = name
		}
	}
	validate := func(o config.Object, _ string, _ commitconfirm.Source) commitconfirm.Verdict {
		r := meta.Validate(o)
		return commitconfirm.Verdict{Config: o, Faults: r.Err()}
	}
	return func(name string) agent.NodeFacts {
		return agent.NodeFacts{Name: name, Software: m.software, Board: m.board, Bases: bases, Metadata: meta}
	}, validate, nil
}
