package simulate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"edgespan/actors/agent"
	"edgespan/actors/simulate"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/httpapi/rest"
	"edgespan/config/layers"
	"edgespan/config/layers/schema"
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

// writers is the number of concurrent writes of all nodes' files. More are no faster, and each needs a thread.
const writers = 8

// slots is one node's disk in a folder.
type slots struct {
	*store.Slots
	turn chan struct{} // shared by all nodes
}

func (m *simulator) diskOf(node int) agent.Disk {
	if m.disk == diskMemory {
		return &memorySlots{files: map[string][]byte{}}
	}
	return slots{store.NewSlots(filepath.Join(m.folder(m.names[node]), "slot")), diskTurn}
}

var diskTurn = make(chan struct{}, writers)

func (s slots) Write(name string, content []byte) error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return s.Slots.Write(name, content)
}

func (s slots) WriteSpare(name string, content []byte) error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return s.Slots.WriteSpare(name, content)
}

// memorySlots is a disk in memory.
type memorySlots struct {
	mu    sync.Mutex
	files map[string][]byte
}

func (s *memorySlots) Read(name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text, has := s.files[name]; has {
		return text, nil
	}
	return nil, fs.ErrNotExist
}

func (s *memorySlots) Write(name string, content []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = content
	return nil
}

func (s *memorySlots) WriteSpare(name string, content []byte) error { return s.Write(name, content) }

func (s *memorySlots) Remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, name)
	return nil
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
