// Package fleet measures the controller with thousands of simulated nodes beside a floor: a
// program of ours that sends the same bytes over as many gRPC streams with mutual TLS, and
// does with them what every node must do, with nothing around it. Both run in one
// benchmark, and the result is their ratio.
//
// It never judges: a benchmark fails only where the work was not done.
package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// role names the environment variable that makes the test binary another program: a
// process may have 20,000 descriptors on the machines that this is for, so ten thousand
// nodes and their server are two processes.
const role = "EDGESPAN_FLEET_ROLE"

// roles are the programs that the test binary can be.
var roles = map[string]func(in *json.Decoder, out *json.Encoder) error{
	"floor-server":  floorServer,
	"floor-clients": floorClients,
}

func TestMain(m *testing.M) {
	name := os.Getenv(role)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := roles[name](json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// child is a process that is asked one line of JSON at a time, and answers with one.
type child struct {
	testing.TB
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	once sync.Once
}

// again starts the test binary as another program, until the test ends.
func again(t testing.TB, name string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), role+"="+name)
	return start(t, name, cmd)
}

// start starts a program that answers on its standard output what it is asked on its input, until the test ends.
func start(t testing.TB, name string, cmd *exec.Cmd) *child {
	t.Helper()
	c := &child{TB: t, name: name, cmd: cmd}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.in, c.out = in, bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.end)
	return c
}

// end closes what the process reads, which ends it.
func (c *child) end() {
	c.once.Do(func() {
		c.in.Close()
		late := time.AfterFunc(time.Minute, func() { _ = c.cmd.Process.Kill() })
		defer late.Stop()
		_ = c.cmd.Wait()
	})
}

// ask sends a question and waits for its answer.
func (c *child) ask(question, answer any) {
	c.Helper()
	text, err := json.Marshal(question)
	if err != nil {
		c.Fatalf("%s: ask: %v", c.name, err)
	}
	c.say(string(text))
	c.hear(answer)
}

// say sends a line.
func (c *child) say(line string) {
	c.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.Fatalf("%s: ask: %v", c.name, err)
	}
}

// hear waits for an answer, one line of JSON.
func (c *child) hear(answer any) {
	c.Helper()
	line, err := c.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, answer)
	}
	if err != nil {
		c.Fatalf("%s: answer %.80q: %v", c.name, line, err)
	}
}

// resident is a process's resident memory in octets.
func resident(t testing.TB, pid int) (octets int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "VmRSS:")
	if _, err := fmt.Sscanf(rest, "%d kB", &octets); !found || err != nil {
		t.Fatalf("no VmRSS of process %d: %v", pid, err)
	}
	return octets << 10
}

// used is the processor time that a process has had.
func used(t testing.TB, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// The name in parentheses may hold anything; utime and stime are the 14th and 15th field.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * (time.Second / 100) // USER_HZ is 100 for every program
}
