package offline

import (
	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan-controller/serve"
)

// Commands returns all commands of this package.
func Commands(a *serve.App) []*cobra.Command {
	return []*cobra.Command{newImport(a), newExport(a), newBackup(a), newRestore(a), newToken(a), newInvite(a), newCA(a),
		newAudit(a)}
}
