package nodecli

import (
	"slices"
	"strings"

	"edgespan/cmd/term"
	"edgespan/config"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

// readTarget reads the object that a command line names: KIND/ID as one word, which is
// what -o name prints, or KIND and ID as two. The id is "" where a kind stands alone.
// allowed is what the error tells to type.
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

// checkID refuses what can't be the id of a network or an app: no time and no daemon
// would change that.
func checkID(cmd, kind, id string) error {
	if kind != "ni" && kind != "app" {
		return nil
	}
	if _, err := uuid.Parse(id); err != nil || len(id) != len(uuid.UUID{}.String()) {
		return term.Usagef("%s: invalid ID %s of %s: must be a UUID: 'edgespan get %s -o name' lists them", cmd,
			config.Quote(id), kind, kind)
	}
	return nil
}

// completeTargets completes KIND/ID, or KIND and then ID, with what the daemon knows.
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
