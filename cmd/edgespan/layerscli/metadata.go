package layerscli

import (
	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/layers/metadata"
	"edgespan/platform/confdir"
)

const metadataUsage = "metadata file, repeatable: the first describes the configs, each later one adds a vendor's"

// bindMetadata adds the flag that names metadata files.
func bindMetadata(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVar(files, "metadata", nil, metadataUsage)
}

// metadata reads metadata files. Each file after the first is a vendor's: its conflicting entries are dropped.
// Conflicts and warnings go to stderr.
func (a offline) metadata(files []string) (*metadata.Metadata, error) {
	if len(files) == 0 {
		return nil, term.Required("--metadata", "at least one file")
	}
	var m *metadata.Metadata
	for i, name := range files {
		doc, err := ReadObject(a.Streams, name)
		if err != nil {
			return nil, err
		}
		var conflicts, faults config.Faults
		old := 0
		if i == 0 {
			m, faults = metadata.Parse(doc, metadata.Options{E2E: metadata.IsE2E(doc)})
		} else {
			old = len(m.Warnings())
			m, conflicts, faults = m.Merge(doc)
		}
		if faults != nil {
			return nil, &confdir.Broken{File: name, Faults: faults}
		}
		for _, c := range append(conflicts, m.Warnings()[old:]...) {
			a.Printf("%s", term.Printable(name+": "+c.Error()))
		}
	}
	return m, nil
}

func newLayersMetadata(a offline) *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "metadata --metadata FILE...",
		Short: "Print metadata, expanded, with vendors' metadata merged in",
		Long: `Print metadata in canonical form, with its copy-blocks expanded.

Each file after the first is a vendor's: what it alone describes is added, with actions that
are unknown here taken for NO_ACTION; what it describes otherwise is dropped, and said.`,
		Example: "  edgespan layers metadata --metadata config_metadata.json --metadata vendor.json",
		Args:    term.ExactArgs(0, ""),
		RunE: func(*cobra.Command, []string) error {
			m, err := a.metadata(files)
			if err != nil {
				return err
			}
			return a.printCanonical(m.Document())
		},
	}
	bindMetadata(cmd, &files)
	return cmd
}
