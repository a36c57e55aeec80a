package nodecli

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/httpapi/nodeapi"

	"github.com/spf13/cobra"
)

// readTarget reads the object that a command line names: KIND/ID as one word, which -o name prints, or KIND and ID as
// two. The ID is "" for a kind alone. allowed is the usage in the error.
func readTarget(cmd string, kinds, args []string, allowed string) (kind, id string, err error) {
	kind, id, joined := strings.Cut(args[0], "/")
	switch {
	case !slices.Contains(kinds, kind):
		return "", "", term.Usagef("%s: unknown type %s: must be %s", cmd, config.Quote(kind), config.OrList(kinds))
	case joined && len(args) > 1:
		return "", "", term.Usagef("%s: got both %s and %s: must be %s", cmd, config.Quote(args[0]), config.Quote(args[1]),
			allowed)
	case len(args) > 1:
		id, joined = strings.TrimPrefix(args[1], kind+"/"), true
	}
	if joined && id == "" {
		return "", "", term.Usagef("%s: ID required: 'edgespan get %s -o name' lists them", cmd, kind)
	}
	return kind, id, nil
}

// checkWaited refuses an adapter where an app is required: waiting would not help.
func checkWaited(kind, id string) error {
	if app, _, adapter := nodeapi.SplitAdapter(id); adapter && kind == "app" && nodeapi.IsUUID(app) {
		return term.Usagef("wait: invalid ID %s of app: must be an app: app/%s", config.Quote(id), app)
	}
	return nil
}

// idOf returns the ID of an object that may be named by its display name. It asks the daemon only for a display name.
func idOf(ctx context.Context, c *nodeapi.Client, kind, id string) (string, error) {
	app := id
	if nodeapi.OfAdapter(kind) {
		app, _, _ = nodeapi.SplitAdapter(id)
	}
	if !slices.Contains(namedKinds, kind) || nodeapi.IsUUID(app) {
		return id, nil
	}
	it, err := c.Get(ctx, kind, id)
	return it.ID, err
}

// watched returns the ID of the object to watch, or "" for all objects of a kind.
func watched(ctx context.Context, c *nodeapi.Client, kind, id string) (string, error) {
	if id == "" {
		return "", nil
	}
	return idOf(ctx, c, kind, id)
}

// namedKinds are the kinds whose objects have display names, or whose app has one.
var namedKinds = []string{"ni", "app", "adapter", "lease", "dns", "tunnel"}

// typedNames returns, by ID, the display names that can replace a UUID on the command line: unique ones that every
// shell reads as one word.
func typedNames(items []nodeapi.Resource) map[string]string {
	count := map[string]int{}
	for _, it := range items {
		count[it.DisplayName()]++
	}
	out := map[string]string{}
	for _, it := range items {
		if name := it.DisplayName(); count[name] == 1 && isWord(name) && !nodeapi.IsUUID(name) {
			out[it.ID] = name
		}
	}
	return out
}

// isWord reports whether every shell, completion script and terminal reads the text as one word.
func isWord(text string) bool {
	return text != "" && len(text) <= maxWord && text[0] != '-' && text[0] != '.' &&
		!strings.ContainsFunc(text, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-+@", r)
		})
}

// maxWord is the longest display name, in bytes, that completion offers: a config permits 64 characters.
const maxWord = 256

// completeTargets completes KIND/ID, or KIND and then ID, with the daemon's objects.
func (a commands) completeTargets(kinds []string, alone bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		const quiet = cobra.ShellCompDirectiveNoFileComp
		switch kind, _, joined := strings.Cut(typed, "/"); {
		case len(args) == 1 && slices.Contains(kinds, args[0]):
			return a.liveIDs(cmd.Context(), args[0], ""), quiet
		case len(args) > 0:
			return nil, quiet
		case joined && slices.Contains(kinds, kind):
			return a.liveIDs(cmd.Context(), kind, kind+"/"), quiet
		case alone:
			return kinds, quiet
		}
		var all []string
		for _, k := range kinds {
			all = append(all, a.liveIDs(cmd.Context(), k, k+"/")...)
		}
		return all, quiet
	}
}
