package main

import "github.com/spf13/cobra"

// Commands are all of this package.
func Commands(a *App) []*cobra.Command {
	return []*cobra.Command{newImport(a), newExport(a), newBackup(a), newRestore(a), newToken(a), newInvite(a), newCA(a),
		newAudit(a)}
}
