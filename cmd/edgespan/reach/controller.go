package reach

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/fleetapi"
)

// Flags are the flags that select the controller and the credentials.
type Flags struct {
	term.Target

	Named string // name of a context; overrides the current one
}

// FlagNames are the names of these flags.
var FlagNames = []string{"controller", "token-file", "ca-file", "ca-sha256", "context"}

// fleetMark is the annotation of commands that have these flags.
const fleetMark = "controller"

// AsksController annotates a command with fleetMark.
func AsksController(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{fleetMark: "yes"}
	return cmd
}

// bindFleet defines the flags on the root, so that they may also precede the command. A command that asks no
// controller refuses them instead of ignoring them.
func (a *App) bindFleet(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&a.Fleet.Controller, "controller", "", "URL of the controller: https://HOST:PORT")
	flags.StringVar(&a.Fleet.TokenFile, "token-file", "", "file with the operator token for the controller")
	flags.StringVar(&a.Fleet.CAFile, "ca-file", "", "PEM file with the certificate of the controller's CA")
	flags.StringVar(&a.Fleet.CASHA256, "ca-sha256", "",
		"SHA-256 of the public key of the controller's CA, instead of --ca-file")
	flags.StringVar(&a.Fleet.Named, "context", "", "context to use (see edgespan context)")
	// The only possible error is an undefined flag, and the line above defines it.
	_ = root.RegisterFlagCompletionFunc("context", a.completeContexts)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		for _, name := range FlagNames {
			if flags.Lookup(name).Changed && cmd.Annotations[fleetMark] == "" {
				return term.Usagef("--%s: not a flag of '%s': only commands that talk to a controller take it: %s", name,
					cmd.CommandPath(), strings.Join(askingGroups, ", "))
			}
		}
		return nil
	}
}

// askingGroups are the commands that ask a controller or have subcommands that do.
var askingGroups = []string{
	"network", "node", "base", "firmware", "hardware", "metadata", "controller", "aggregator", "optimize", "topology",
	"nodes", "peers", "clusters", "history", "rollout", "operators", "actions", "apply", "wait",
	"config", "env", "comp", "def", "lvl",
}

// FleetTarget returns the controller by the precedence flag > environment > context. The token and the CA of a context
// belong to its controller: if a flag names another controller, that one gets neither.
func (a *App) FleetTarget() (term.Target, error) {
	t := term.Target{
		Controller: a.Setting(a.Fleet.Controller, "EDGESPAN_CONTROLLER", ""),
		TokenFile:  a.Setting(a.Fleet.TokenFile, "EDGESPAN_TOKEN_FILE", ""),
		CAFile:     a.Setting(a.Fleet.CAFile, "EDGESPAN_CA_FILE", ""),
		CASHA256:   a.Setting(a.Fleet.CASHA256, "EDGESPAN_CA_SHA256", ""),
	}
	if a.Fleet.CAFile != "" && a.Fleet.CASHA256 == "" {
		t.CASHA256 = "" // the flag also overrides EDGESPAN_CA_SHA256
	}
	if a.Fleet.CASHA256 != "" && a.Fleet.CAFile == "" {
		t.CAFile = ""
	}
	if err := a.fromContext(&t); err != nil {
		return t, err
	}
	if t.Controller == "" {
		return t, term.Required("--controller",
			"or set EDGESPAN_CONTROLLER, or run 'edgespan context add NAME --controller URL'")
	}
	return t, t.Check()
}

// fromContext fills the fields that neither a flag nor the environment set.
func (a *App) fromContext(t *term.Target) error {
	name := a.Setting(a.Fleet.Named, "EDGESPAN_CONTEXT", "")
	if name == "" && t.Controller != "" && t.TokenFile != "" && (t.CAFile != "" || t.CASHA256 != "") {
		return nil // everything is set already
	}
	f, err := a.readContexts()
	switch {
	case err != nil && t.Controller != "" && name == "":
		return nil // without a home folder there are no contexts, and none is needed
	case err != nil:
		return err
	case name == "" && f.Current == "":
		return nil
	case name == "":
		name = f.Current
	}
	c, err := f.named(name)
	if err != nil {
		return err
	}
	if t.Controller == "" {
		t.Controller = c.Controller
	}
	if t.Controller != c.Controller {
		return nil
	}
	if t.TokenFile == "" {
		t.TokenFile = c.TokenFile
	}
	if t.CAFile == "" && t.CASHA256 == "" {
		t.CAFile, t.CASHA256 = c.CAFile, c.CASHA256
	}
	return nil
}

// FleetClient returns a client of the controller that flags, environment or context name.
func (a *App) FleetClient() (*fleetapi.Client, error) {
	t, err := a.FleetTarget()
	if err != nil {
		return nil, err
	}
	return t.Client()
}

// Timeout bounds one request to the controller: it validates an override on ten thousand nodes before it answers.
const Timeout = 2 * time.Minute

// RetryWatch is the pause between two attempts of a watch.
const RetryWatch = 500 * time.Millisecond
