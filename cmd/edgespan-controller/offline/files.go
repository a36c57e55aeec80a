package offline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan-controller/serve"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/platform/confdir"
)

// seedFile is one of the seed's files below /data/cfg.
type seedFile struct {
	name string
	doc  *config.Object
}

// seedFiles returns the files of a fleet; after a read, controller and aggregator are the documents of E2E.
func seedFiles(f *history.Files, controller, aggregator *config.Object) []seedFile {
	return []seedFile{
		{"network_config_overrides.json", &f.Network},
		{"node_config_overrides.json", &f.Nodes},
		{"auto_node_config_overrides.json", &f.Auto},
		{"e2e_topology.conf", &f.Topology},
		{"controller_config.json", controller},
		{"aggregator_config.json", aggregator},
	}
}

// readFiles reads the files that exist in a folder and returns all their faults together.
func readFiles(dir string) (history.Files, []string, error) {
	var f history.Files
	var controller, aggregator config.Object
	var names []string
	var faults []error
	all := seedFiles(&f, &controller, &aggregator)
	for _, file := range all {
		names = append(names, file.name)
		doc, err := confdir.ReadObject(filepath.Join(dir, file.name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			names = names[:len(names)-1]
		case err != nil:
			faults = append(faults, term.Missing(err))
		default:
			*file.doc = doc
		}
	}
	if err := errors.Join(faults...); err != nil {
		return f, nil, err
	}
	if len(names) == 0 {
		var known []string
		for _, file := range all {
			known = append(known, file.name)
		}
		return f, nil, term.WithClass(term.ExitNotFound,
			fmt.Errorf("import: --cfg-dir: %s: no files to import: must have at least one of %s", dir,
				strings.Join(known, ", ")))
	}
	f.E2E = map[string]config.Object{}
	for name, doc := range map[string]config.Object{"controller": controller, "aggregator": aggregator} {
		if doc != nil {
			f.E2E[name] = doc
		}
	}
	return f, names, nil
}

// writeFiles writes the documents of a fleet into a folder, all or nothing. left are existing files for which the
// fleet has no document; they are not changed.
func writeFiles(dir string, f history.Files) (written, left []string, err error) {
	controller, aggregator := f.E2E["controller"], f.E2E["aggregator"]
	var files []confdir.File
	for _, file := range seedFiles(&f, &controller, &aggregator) {
		path := filepath.Join(dir, file.name)
		if *file.doc != nil {
			files = append(files, confdir.File{Name: path, Document: *file.doc})
			written = append(written, path)
		} else if _, err := os.Stat(path); err == nil {
			left = append(left, path)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("export: %w", err)
	}
	return written, left, confdir.WriteAll(files)
}

const aboutFiles = `

The files are those of the original controller's /data/cfg: network_config_overrides.json,
node_config_overrides.json, auto_node_config_overrides.json, e2e_topology.conf,
controller_config.json and aggregator_config.json.

With --controller the command talks to a running controller; without it, it opens the store of
--data-dir or --etcd, and no controller may run on that store.`

func newImport(a *serve.App) *cobra.Command {
	var dir, message, output string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "import --cfg-dir DIR",
		Short: "Import the layers of a fleet from the original controller's files",
		Long: `Import the layers of a fleet from the original controller's files, as one revision.
Deprecated and read-only values are accepted, as at the original's start. Any other error rejects the
whole import: exit code 4, one line per error. A node that is not in a file loses its layer; a missing
file changes nothing.` + aboutFiles,
		Example: `  edgespan-controller import --cfg-dir /data/cfg --dry-run
  edgespan-controller import --cfg-dir /data/cfg --controller https://127.0.0.1:8443 --token-file admin.token ` +
			`--ca-sha256 H`,
		Args: term.ExactArgs(0, ""),
	}
	r := bindReach(cmd)
	cmd.Flags().StringVar(&dir, "cfg-dir", "", "folder with the files")
	cmd.Flags().StringVarP(&message, "message", "m", "", "reason, for the history")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "validate everything, and write nothing")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json for all changes")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := needs("cfg-dir", dir, output); err != nil {
			return err
		}
		files, names, err := readFiles(dir)
		if err != nil {
			return err
		}
		if message == "" {
			message = "import " + strings.Join(names, " ")
		}
		var out fleetapi.Written
		err = at(a, cmd, r, func(ctx context.Context, o adminClient) error {
			out, err = o.importFiles(ctx, files, message, dryRun)
			return err
		})
		if err != nil {
			return err
		}
		return printWritten(a, out, output)
	}
	return cmd
}

// needs checks the flags that import and export share.
func needs(flag, value, output string) error {
	switch {
	case value == "":
		return term.Required("--"+flag, "")
	case output != "" && output != "json":
		return term.Invalid("--output", output, "json")
	}
	return nil
}

// printWritten prints the result of a write.
func printWritten(a *serve.App, w fleetapi.Written, output string) error {
	for _, s := range w.Warnings {
		a.Printf("%s", term.Printable(s))
	}
	for _, s := range w.Unknown {
		a.Printf("unknown to the metadata: %s", term.Printable(s))
	}
	if output == "json" {
		return a.PrintJSON(w)
	}
	what := fmt.Sprintf("revision %d", w.Revision)
	switch {
	case w.DryRun:
		what = "dry run"
	case !w.Changed:
		what += ", unchanged"
	}
	_, err := fmt.Fprintf(a.Out, "%s: %s\n", what, term.Printable(w.Message))
	return err
}

func newExport(a *serve.App) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "export --cfg-dir DIR",
		Short: "Export the layers of a fleet as the original controller's files",
		Long: `Export the layers of a fleet as the original controller's files, in canonical form,
including secrets. The old content of a file is kept beside it as FILE.bak. Only the owner can read
a new file.` + aboutFiles,
		Example: "  edgespan-controller export --cfg-dir /data/cfg",
		Args:    term.ExactArgs(0, ""),
	}
	r := bindReach(cmd)
	cmd.Flags().StringVar(&dir, "cfg-dir", "", "folder for the files")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := needs("cfg-dir", dir, ""); err != nil {
			return err
		}
		var files history.Files
		err := at(a, cmd, r, func(ctx context.Context, o adminClient) (err error) {
			files, err = o.exportFiles(ctx)
			return err
		})
		if err != nil {
			return err
		}
		written, left, err := writeFiles(dir, files)
		if err != nil {
			return err
		}
		for _, path := range left {
			a.Printf("%s: unchanged: the fleet has no such config", path)
		}
		for _, path := range written {
			fmt.Fprintln(a.Out, path)
		}
		return nil
	}
	return cmd
}

// at opens the fleet that flags name, calls do, and closes it.
func at(a *serve.App, cmd *cobra.Command, r *reach, do func(context.Context, adminClient) error) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), adminTimeout)
	defer cancel()
	o, err := r.open(ctx, a, cmd)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, o), o.close())
}
