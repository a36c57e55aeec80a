package simulate

import (
	"context"
	"os"
	"testing"
	"time"

	"edgespan/cmd/edgespan-controller/ctltest"
	"edgespan/cmd/edgespan-controller/serve"
	"edgespan/cmd/term"
)

// program is the controller, and the commands of this package.
var program ctltest.Program = func(ctx context.Context, s term.Streams, hup <-chan os.Signal, args []string) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := serve.New(s, "0.0.0")
	a.HUP, a.Terminate, a.Reboot = hup, cancel, 10*time.Millisecond
	root := a.NewRoot("edgespan-controller", "", "")
	serve.Bind(a, root)
	root.AddCommand(New(a))
	return a.Run(ctx, root, args)
}

func TestMain(m *testing.M) { program.Main(m) }
