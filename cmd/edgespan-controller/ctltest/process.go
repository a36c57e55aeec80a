package ctltest

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"edgespan/config/httpapi/fleetapi"
)

// Process is a controller without authentication in a process of its own.
type Process struct {
	Cmd        *exec.Cmd
	Err        *Output
	API, Nodes string // addresses
	Client     *fleetapi.Client
}

// StartProcess starts one and waits until it is running.
func StartProcess(t testing.TB, dir string, more ...string) *Process {
	t.Helper()
	v := &Process{Err: NewOutput()}
	args := append([]string{"--data-dir", dir, "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0", "--auth",
		"none"}, more...)
	v.Cmd = exec.Command(os.Args[0], args...)
	v.Cmd.Env = append(os.Environ(), asProgram+"=1")
	v.Cmd.Stderr = v.Err
	if err := v.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Cmd.Process.Kill() })
	var said struct{ API, Nodes string }
	line := v.Err.Line(t, `"msg":"controller runs"`, nil)
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		t.Fatal(err)
	}
	client, err := fleetapi.NewClient(fleetapi.Options{URL: "http://" + said.API})
	if err != nil {
		t.Fatal(err)
	}
	v.API, v.Nodes, v.Client = said.API, said.Nodes, client
	return v
}

// Kill ends it with SIGKILL.
func (v *Process) Kill(t testing.TB) {
	t.Helper()
	if err := v.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = v.Cmd.Wait() // it was killed
	v.Client.Close()
}
