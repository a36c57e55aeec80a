package wireguard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
	"edgespan/platform/vpn/wireguard/helper"

	"golang.org/x/sys/unix"
)

const (
	recordFile = "wireguard.json"
	outFile    = "out"
	stopGrace  = time.Second
	lastWords  = 1 << 10 // bytes of output in an error
	answerTime = 2 * time.Second
	startTime  = 10 * time.Second
	listTime   = 3 * time.Second       // of a listing of all processes, which those who wait share
	answerWait = 10 * time.Millisecond // between two looks for a socket
	// memoryShare is the part of its limit that a helper's memory stays below, if it can, and untouched what Go counts in
	// addition: buffers for 3 times 128 packets of 64 KiB, of which only the beginnings are ever used.
	memoryShare = 0.8
	untouched   = 24 << 20
)

// record is what is kept of a tunnel in its folder: written before anything is made or changed, and
// after all was. It has no secret.
type record struct {
	proc.Ident
	Kernel     bool                   `json:"kernel"`
	Making     bool                   `json:"making,omitzero"` // a link without a mark is its own
	Whole      bool                   `json:"whole"`           // all is configured as recorded
	Link       string                 `json:"link"`
	MTU        int                    `json:"mtu"`
	Mark       uint32                 `json:"mark"`
	Generation uint64                 `json:"generation"`
	Limits     netstate.ProcessLimits `json:"limits,omitzero"`
	Identity   string                 `json:"identity"`
	PublicKey  string                 `json:"publicKey"`
	Replaced   bool                   `json:"replaced,omitzero"` // netstate.WireGuard.PublicKey is set
	ListenPort int                    `json:"listenPort"`
	Salt       string                 `json:"salt"`
	Digest     string                 `json:"digest"` // of the configuration
	Peers      []recordedPeer         `json:"peers"`
}

type recordedPeer struct {
	Name      string `json:"name"`
	PublicKey string `json:"publicKey"`
	Endpoint  string `json:"endpoint,omitzero"` // as configured
	Succeeds  string `json:"succeeds,omitzero"`
}

// endpoint returns the configured endpoint of a peer. A successor's is that of the peer that it succeeds: once it has
// taken the place of that one in the configuration, it stays where it was heard.
func (r record) endpoint(public key) string {
	named := func(text string) recordedPeer {
		for _, p := range r.Peers {
			if p.PublicKey == text {
				return p
			}
		}
		return recordedPeer{}
	}
	p := named(public.base64())
	if p.Succeeds != "" {
		p = named(p.Succeeds)
	}
	return p.Endpoint
}

func readRecord(folder string) (record, error) {
	var r record
	b, err := os.ReadFile(filepath.Join(folder, recordFile))
	if err != nil {
		return r, fmt.Errorf("read tunnel: %w", err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return record{}, fmt.Errorf("parse tunnel: %w", err)
	}
	return r, nil
}

func (r record) write(folder string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record tunnel: %w", err)
	}
	path := filepath.Join(folder, recordFile)
	err = os.WriteFile(path+".new", b, 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("record tunnel: %w", err)
	}
	return nil
}

// confinement of a helper. It has no limit of address space: a Go program reserves more than it uses.
var confinement = proc.Confinement{
	Keep:  []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE, unix.CAP_SETUID, unix.CAP_SETGID},
	Files: 256,
}

// argv is the command line of a helper, which no other process of the machine has.
func (t *Tunnels) argv(folder, link string) []string {
	return []string{t.program, helper.Command, folder, link}
}

// isHelper reports whether a command line is that of the helper of a folder, of any release.
func isHelper(argv []string, folder string) bool {
	i := slices.Index(argv, helper.Command)
	return i >= 0 && len(argv) == i+3 && argv[i+1] == folder
}

func (t *Tunnels) running(r record, folder string) bool {
	return r.Pid != 0 && isHelper(r.Cmdline(), folder)
}

// process returns the running helper of a folder that answers: the recorded one, one that an interrupted Put has
// started, or a new one. All others are stopped.
func (t *Tunnels) process(ctx context.Context, r *record, number int) error {
	folder := t.folder(number)
	answers := func() bool {
		ctx, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		_, err := socket(folder).get(ctx)
		return err == nil
	}
	if t.running(*r, folder) && answers() {
		return nil
	}
	strays, err := t.helpers(ctx, folder)
	if err != nil {
		return err
	}
	if len(strays) == 1 && answers() {
		r.Ident = strays[0]
		return nil
	}
	if err := t.stop(ctx, number, strays); err != nil {
		return err
	}
	return t.start(ctx, r, number)
}

// start starts the helper of a folder, in which none runs.
func (t *Tunnels) start(ctx context.Context, r *record, number int) error {
	folder := t.folder(number)
	id, err := t.run.Start(t.argv(folder, r.Link), filepath.Join(folder, outFile), confinement)
	if err != nil {
		return err
	}
	r.Ident = id
	if err := t.await(ctx, folder, id); err != nil {
		err = &proc.Error{Argv: []string{helper.Command}, Words: tail(filepath.Join(folder, outFile)), Err: err}
		return errors.Join(err, id.Stop(context.WithoutCancel(ctx), stopGrace))
	}
	return nil
}

// await waits until a new helper answers.
func (t *Tunnels) await(ctx context.Context, folder string, id proc.Ident) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	ended := make(chan struct{})
	stop, err := id.Watch(func() { close(ended) })
	if err != nil {
		return err
	}
	defer stop()
	look := time.NewTicker(answerWait)
	defer look.Stop()
	for {
		if _, err := socket(folder).get(ctx); err == nil {
			return nil
		}
		select {
		case <-ended:
			return errors.New("the tunnel's process ended at once")
		case <-ctx.Done():
			return fmt.Errorf("the tunnel's process does not answer: %w", ctx.Err())
		case <-look.C:
		}
	}
}

// helpers lists the running helpers of a folder.
func (t *Tunnels) helpers(ctx context.Context, folder string) ([]proc.Ident, error) {
	all, err := t.procs.Get(ctx)
	if err != nil {
		return nil, err
	}
	var found []proc.Ident
	for _, p := range all {
		if isHelper(p.Argv, folder) && isHelper(p.Cmdline(), folder) { // the pid may be another's since
			found = append(found, p.Ident)
		}
	}
	return found, nil
}

// stop stops helpers of a network.
func (t *Tunnels) stop(ctx context.Context, number int, ids []proc.Ident) error {
	t.guard.Leave(number)
	for _, id := range ids {
		if err := id.Stop(ctx, stopGrace); err != nil {
			return err
		}
	}
	return nil
}

// limit puts a helper under its limits, as far as the machine can do it.
func (t *Tunnels) limit(ctx context.Context, r *record, number int, l netstate.ProcessLimits) {
	if l == (netstate.ProcessLimits{}) {
		r.Limits = l
		return
	}
	_ = t.group.Put(netstate.VPNName(number), r.Ident, l)
	bytes := int64(float64(l.Memory<<20)*memoryShare) + untouched
	_, _ = socket(t.folder(number)).ask(ctx, fmt.Sprintf("%s=%d\n\n", helper.MemoryRequest, bytes)) // of an older release?
	r.Limits = l
}

// tail returns the end of a helper's output on one line.
func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	b = b[max(0, len(b)-lastWords):]
	return strings.Join(strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' }), "; ")
}

func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
