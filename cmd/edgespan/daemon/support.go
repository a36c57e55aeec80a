package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/relay"
	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/relayflow"
	"edgespan/platform/proc"
)

// supportTimeout bounds one support archive: somewhat longer than the command bounds itself.
const supportTimeout = 3 * time.Minute

// maxSupport bounds the bytes of one archive. The command bounds itself, too.
const maxSupport = 64 << 20

// relays answers the controller's relays.
func (n *node) relays(o nodeOptions, log *zap.Logger) *relay.Server {
	return &relay.Server{Log: log, Kinds: map[string]relay.Handler{
		nodeproto.RelaySupport: func(ctx context.Context, argument []byte, with io.ReadWriter) error {
			return sendSupport(ctx, o, log, argument, with)
		},
		nodeproto.RelayShell: func(ctx context.Context, argument []byte, with io.ReadWriter) error {
			return answerShell(ctx, n.Shell(o.Level), argument, with)
		},
	}}
}

// sendSupport sends the controller a support archive, which a process of its own makes: it can be killed, and the
// daemon holds no more of it than a few pieces.
func sendSupport(ctx context.Context, o nodeOptions, log *zap.Logger, argument []byte, to io.Writer) error {
	var q nodeproto.SupportRequest
	if err := json.Unmarshal(argument, &q); err != nil {
		return errors.New("the request is no valid JSON")
	}
	by := zap.String("by", config.Truncate(q.By, nodeproto.MaxName))
	log.Info("support archive requested through the controller", by, zap.Bool("flows", q.Flows),
		zap.Bool("logs", !q.NoLogs))
	ctx, cancel := context.WithTimeout(ctx, supportTimeout)
	defer cancel()
	out := &atMost{w: to}
	pieces := bufio.NewWriterSize(out, relayflow.PieceSize)
	err := proc.New("").RunTo(ctx, pieces, supportCommand(o, q)...)
	if err == nil {
		err = pieces.Flush()
	}
	log.Info("support archive ended", by, zap.Int64("bytes", out.sent.Load()), zap.Error(err))
	return err
}

// supportCommand returns the command line of an archive, at a low priority. The file in /proc is this program also
// after an upgrade.
func supportCommand(o nodeOptions, q nodeproto.SupportRequest) []string {
	program := fmt.Sprintf("/proc/%d/exe", os.Getpid())
	argv := []string{"nice", "-n", "10", program, "support", "--output=-", "--run-dir=" + o.RunDir, "--socket=" + o.Socket,
		"--state-dir=" + o.StateDir, "--config=" + o.Config, "--metadata=" + o.About.Metadata}
	if q.Since > 0 {
		argv = append(argv, "--since="+q.Since.String())
	}
	if q.NoLogs {
		argv = append(argv, "--no-logs")
	}
	if q.Flows {
		argv = append(argv, "--flows")
	}
	return argv
}

// atMost is a writer that fails after maxSupport bytes.
type atMost struct {
	w    io.Writer
	sent atomic.Int64 // a process that was given up may still write
}

func (a *atMost) Write(p []byte) (int, error) {
	if a.sent.Load()+int64(len(p)) > maxSupport {
		return 0, errors.New("the support archive is too large")
	}
	n, err := a.w.Write(p)
	a.sent.Add(int64(n))
	return n, err
}
