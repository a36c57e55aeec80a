package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/platform/nodelink"
	"edgespan/platform/pki"
	"edgespan/platform/store"
)

// controllerFile is the file of the state folder that names the controller that the node joined.
const controllerFile = "controller.json"

// membership is what a node stores about its fleet, apart from its credentials.
type membership struct {
	Controller string `json:"controller"` // HOST:PORT, or several separated by commas
	Name       string `json:"name"`
}

type joinOptions struct {
	membership
	token, pin, stateDir string
}

// NewJoin returns the command `join`.
func NewJoin(a *reach.App) *cobra.Command {
	var o joinOptions
	cmd := &cobra.Command{
		Use:     "join --controller HOST:PORT[,HOST:PORT...] --token T --ca-sha256 H",
		Short:   "Join this node to a controller's fleet",
		Example: "  edgespan join --controller fleet.example.org:8444 --token TOKEN --ca-sha256 HASH --name edge-1",
		Long: `join requests this node's certificate from a controller, with a token that is valid
once. The controller prints the whole command at its first start, and 'edgespan nodes invite' prints
it for further nodes. The token can also be given in EDGESPAN_JOIN_TOKEN.

If the fleet has several controllers, give all addresses, separated by commas. The node tries them
in turn, and connects to the next one when its stream ends.`,
		Args: term.ExactArgs(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.stateDir = a.Setting(o.stateDir, "EDGESPAN_STATE_DIR", reach.DefaultStateDir)
			o.token = a.Setting(o.token, "EDGESPAN_JOIN_TOKEN", "")
			return join(cmd.Context(), a.Streams, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Controller, "controller", "",
		"addresses where the controllers listen for nodes: HOST:PORT, several separated by commas")
	f.StringVar(&o.token, "token", "", "join token")
	f.StringVar(&o.pin, "ca-sha256", "", "SHA-256 of the public key of the controller's certificate authority")
	f.StringVar(&o.Name, "name", "", "name of the node in the fleet (default: the name in the token)")
	f.StringVar(&o.stateDir, "state-dir", "", "state folder (default "+reach.DefaultStateDir+")")
	return cmd
}

func join(ctx context.Context, s term.Streams, o joinOptions) error {
	pin, err := pki.ParsePin(o.pin)
	all, wrong := nodelink.Addresses(o.Controller)
	switch {
	case o.Controller == "":
		return term.Required("--controller", "HOST:PORT, or several separated by commas")
	case wrong != nil:
		return term.Usagef("--controller: %w", wrong)
	case o.token == "":
		return term.Required("--token", "run 'edgespan nodes invite NAME' on a machine that reaches the controller")
	case err != nil:
		return term.Usagef("--ca-sha256: %w", err)
	}
	if err := os.MkdirAll(o.stateDir, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	id, runs, err := nodeID(o.stateDir)
	if err != nil {
		return err
	}
	creds, err := pki.OpenCredentials(o.stateDir, id, nil)
	if err != nil && !errors.Is(err, pki.ErrNotJoined) {
		return err
	}
	o.Controller = strings.Join(all, ",")
	ctx, cancel := context.WithTimeout(ctx, reach.RequestTimeout*time.Duration(len(all)))
	defer cancel()
	o.Name, err = nodelink.Join(ctx,
		nodelink.JoinOptions{Controller: o.Controller, Token: o.token, Name: o.Name, Pin: pin, Credentials: creds})
	if err != nil {
		return err
	}
	text, err := json.Marshal(o.membership)
	if err == nil {
		err = store.WriteFile(filepath.Join(o.stateDir, controllerFile), append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("store the controller's address: %w: run the same command again", err)
	}
	s.Printf("node %s joined %s as %s", id, o.Controller, o.Name)
	if runs {
		s.Printf("edgespan node is running: restart it to connect")
	}
	return nil
}

// nodeID returns the node's ID. runs reports whether a daemon holds the state folder.
func nodeID(stateDir string) (id uuid.UUID, runs bool, err error) {
	journal, err := store.OpenJournal(stateDir)
	switch {
	case errors.Is(err, store.ErrLocked):
		runs = true // the daemon created the ID when it started
	case err != nil:
		return id, false, fmt.Errorf("open journal: %w", err)
	default:
		defer func() { _ = journal.Close() }() // nothing was written
	}
	if id, err = store.NodeID(stateDir); err != nil {
		return id, runs, fmt.Errorf("read node ID: %w", err)
	}
	return id, runs, nil
}

// fleetOf reads which fleet the node is part of. The credentials are nil if it has joined none.
func fleetOf(stateDir string, id uuid.UUID) (membership, *pki.Credentials, error) {
	var m membership
	text, err := os.ReadFile(filepath.Join(stateDir, controllerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, nil, fmt.Errorf("read %s: %w", controllerFile, err)
	}
	creds, err := pki.OpenCredentials(stateDir, id, nil)
	if err != nil {
		return m, nil, err
	}
	return m, creds, nil
}
