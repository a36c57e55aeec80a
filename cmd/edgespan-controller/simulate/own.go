package simulate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"edgespan/cmd/edgespan-controller/serve"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/platform/proc"
)

// ownController is a controller process that a simulation starts and ends.
type ownController struct {
	url     string
	dataDir string
	process proc.Ident
	ended   chan error
	kill    context.CancelFunc
}

// Time limits of the own controller.
const (
	ownStart = 60 * time.Second
	ownEnd   = 20 * time.Second
)

// startOwn starts this program as a controller on loopback, without authentication, with the layers and the metadata
// of the simulation. It ends with this process.
func startOwn(ctx context.Context, s *simulation) (*ownController, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start a controller: %w", err)
	}
	api, nodes, err := freeAddresses(ctx)
	if err != nil {
		return nil, fmt.Errorf("start a controller: %w", err)
	}
	o := &ownController{url: "http://" + api, dataDir: filepath.Join(s.dir, "controller"), ended: make(chan error, 1)}
	argv := []string{
		self, "--data-dir", o.dataDir, "--listen", api, "--node-listen", nodes, "--node-host", "127.0.0.1", "--auth",
		serve.AuthNone,
		"--joins-per-second", "1000", "--config-confirm-timeout-s", fmt.Sprint(int(ownConfirm(s.nodes).Seconds())),
	}
	if s.BaseDir != "" {
		argv = append(argv, "--base-dir", string(s.BaseDir))
	}
	for _, file := range s.Metadata {
		argv = append(argv, "--metadata", file)
	}
	work, kill := context.WithCancel(context.WithoutCancel(ctx)) // ends after its nodes
	o.kill = kill
	go func() {
		_, err := proc.New("").Run(work, "", argv...)
		o.ended <- err
	}()
	return o, nil
}

// ownConfirm is the confirm timeout for the nodes of an own controller. It is longer than a silent node's silence plus
// the repetition of a probe (15 s), and grows with the number of nodes, since one machine does the work of all. A
// rollout waits that long for an unhealthy node. The default timeout is the maximum.
func ownConfirm(nodes int) time.Duration {
	return min(2*time.Minute, 30*time.Second+time.Duration(nodes)*50*time.Millisecond)
}

// freeAddresses returns two unused loopback addresses.
func freeAddresses(ctx context.Context) (api, nodes string, err error) {
	var lc net.ListenConfig
	var found []string
	for range 2 {
		l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", err
		}
		defer l.Close()
		found = append(found, l.Addr().String())
	}
	return found[0], found[1], nil
}

// ready waits until the controller serves.
func (o *ownController) ready(ctx context.Context, c *fleetapi.Client) error {
	ctx, cancel := context.WithTimeout(ctx, ownStart)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for c.Ready(ctx) != nil {
		select {
		case err := <-o.ended:
			o.ended <- err
			return errors.Join(errors.New("start a controller: it exited"), err)
		case <-ctx.Done():
			return fmt.Errorf("start a controller: it is not ready: %w", ctx.Err())
		case <-look.C:
		}
	}
	running, err := proc.List()
	if err != nil {
		return fmt.Errorf("start a controller: %w", err)
	}
	i := slices.IndexFunc(running, func(p proc.Process) bool { return slices.Contains(p.Argv, o.dataDir) })
	if i < 0 {
		return errors.New("start a controller: process not found")
	}
	o.process = running[i].Ident
	return nil
}

// stop ends the controller and waits for it.
func (o *ownController) stop() error {
	defer o.kill()
	ctx, cancel := context.WithTimeout(context.Background(), ownEnd)
	defer cancel()
	if o.process.Pid != 0 {
		if err := o.process.Stop(ctx, ownEnd); err != nil {
			return fmt.Errorf("end the controller: %w", err)
		}
	}
	o.kill()
	if err := <-o.ended; err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("end the controller: %w", err)
	}
	return nil
}
