package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"go.uber.org/zap"

	tree "edgespan/actors/node"
	"edgespan/actors/node/fault"
	"edgespan/actors/shell"
	"edgespan/cmd/edgespan/reach"
	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/platform/daemon"
	"edgespan/pubsub"
	"edgespan/pubsub/loglevel"
	"edgespan/pubsub/shellproto"
)

// readGroup is the group whose members may attach a shell. Those of shellproto.AdminGroup may also change something.
const readGroup = "edgespan"

// serveShells serves debug shells on their own socket until ctx ends. The daemon works without them.
func serveShells(ctx context.Context, control string, n shellproto.Node, log *zap.Logger) {
	path := reach.ShellSocket(control)
	l, err := nodeapi.Listen(ctx, path)
	if err != nil {
		log.Error("no debug shells", zap.Error(err))
		return
	}
	for _, group := range []string{readGroup, shellproto.AdminGroup} {
		if gid, ok := daemon.GroupID(group); ok {
			if err := os.Chown(path, -1, gid); err != nil {
				log.Warn("debug shells are for root alone", zap.Error(err))
			}
			break
		}
	}
	s := &shell.Server{Node: n, Identify: identify, Log: log}
	if err := s.Serve(ctx, l); err != nil {
		log.Error("debug shells ended", zap.Error(err))
	}
	_ = l.Remove() // the next start replaces it
}

// identify returns the user at the other end.
func identify(c net.Conn) (shellproto.Who, error) {
	p, err := daemon.PeerOf(c)
	if err != nil {
		return shellproto.Who{}, err
	}
	return shellproto.Who{UID: p.UID, PID: p.PID, Admin: p.UID == 0 || p.IsIn(shellproto.AdminGroup)}, nil
}

// Shell returns what answers debug shells.
func (n *node) Shell(levels *loglevel.Levels) shellproto.Node {
	if n.faults == nil {
		return n.Console(levels, nil)
	}
	return n.Console(levels, n.faults)
}

// withFaults returns the host and the journal for the actors, on which faults may happen with --allow-faults.
func (n *node) withFaults(o nodeOptions, log *zap.Logger) (tree.Host, pubsub.Journal) {
	if !o.AllowFaults {
		return n.host, n.journal
	}
	n.faults = &fault.Faults{Ended: func(what string) {
		log.Warn("injected fault ended", zap.String("fault", what))
		n.Node.Note(nodeapi.EventShell, "node", fmt.Sprintf("fault %s ended by itself", what))
	}}
	log.Warn("faults can be injected by debug shells: --allow-faults")
	return n.faults.Host(n.host), n.faults.Journal(n.journal)
}

// answerShell answers one command that an operator gives through the controller, which has checked the role. Each frame
// is a line.
func answerShell(ctx context.Context, n shellproto.Node, argument []byte, to io.Writer) error {
	var q nodeproto.ShellRequest
	if err := json.Unmarshal(argument, &q); err != nil {
		return errors.New("the request is no valid JSON")
	}
	frames := json.NewEncoder(to)
	r := shellproto.Request{Version: shellproto.Version, ID: 1, Op: q.Op, Args: q.Args, Write: q.Write}
	who := shellproto.Who{Name: config.Truncate(q.By, nodeproto.MaxName), Admin: true}
	err := r.Permit(who)
	if err == nil {
		err = n.Do(ctx, who, r, func(answer any, dropped uint64) error {
			text, err := json.Marshal(answer)
			if err != nil {
				return err
			}
			return frames.Encode(shellproto.Frame{ID: r.ID, Data: text, Dropped: dropped})
		})
	}
	if err != nil {
		return frames.Encode(shellproto.Failure(r.ID, err))
	}
	return frames.Encode(shellproto.Frame{ID: r.ID, End: true})
}
