package fleetcli

import (
	"edgespan/cmd/edgespan/layerscli"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/layers/metadata"
)

// overrides returns the overrides of a command line: the document of -f, or KEY=VALUE. The controller's metadata gives
// each VALUE its type: that of the nodes ("node"), of the controller's own config, or of the aggregator's.
func (c *fleetCall) overrides(of string, args []string) (config.Object, error) {
	switch {
	case c.file != "" && len(args) > 0:
		return nil, term.Exclusive("-f", "KEY=VALUE")
	case c.file != "":
		return layerscli.ReadObject(c.a.Streams, c.file)
	case len(args) == 0:
		return nil, term.Required(c.cmd.Name(), "-f FILE or KEY=VALUE...")
	}
	for _, arg := range args {
		if _, _, found := layerscli.CutAssignment(arg); !found {
			return nil, term.Invalid(c.cmd.Name(), arg, "KEY=VALUE, or -f FILE")
		}
	}
	doc, err := c.client.Metadata(c.ctx, of)
	if err != nil {
		return nil, err
	}
	m, faults := metadata.Parse(doc.Object, metadata.Options{E2E: of != "node"})
	if faults != nil {
		// The controller validates the write; the command only needs the types of the values.
		c.a.Printf("cannot read the controller's metadata: values are read as JSON")
		m = nil
	}
	return layerscli.Assignments(m, args)
}

// keys parses the paths of a command line.
func keys(args []string) ([][]string, error) {
	var out [][]string
	for _, arg := range args {
		path, err := config.ParsePath(arg)
		if err != nil {
			return nil, term.Usagef("KEY: %w", err)
		}
		out = append(out, path)
	}
	return out, nil
}

// splitPaths splits --paths at commas that are outside of double quotes.
func splitPaths(words []string) ([][]string, error) {
	var texts []string
	for _, w := range words {
		quoted, from := false, 0
		for i := 0; i < len(w); i++ {
			switch {
			case quoted && w[i] == '\\':
				i++
			case w[i] == '"':
				quoted = !quoted
			case w[i] == ',' && !quoted:
				texts = append(texts, w[from:i])
				from = i + 1
			}
		}
		texts = append(texts, w[from:])
	}
	return keys(texts)
}
