// Package guest is what runs in the machines of a soak: the agent that does what the host asks for, apps with their
// beacons and attacks, the client of a tap device, and what measures the daemon and reads its records. It decides and
// judges nothing.
package guest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// message is what goes over the line between a guest's agent and the host. The host starts processes, writes lines to
// them and kills them; the agent tells their lines and their ends.
type Message struct {
	Op   string // "start", "in", "kill"; "out", "exit"
	ID   int
	Argv []string `json:",omitempty"`
	Data string   `json:",omitempty"`
	Code int      `json:",omitempty"` // of "exit"; -1: killed, or not started
}

// Dir is where a machine has the programs and scripts of a run.
const Dir = "/opt/soak"

// Main does what the arguments ask for, if they are those of a guest; is tells whether they are.
func Main(args []string) (err error, is bool) {
	switch {
	case args[0] == "agent":
		return agentMain(), true
	case args[0] == "app" && len(args) == 3:
		return appMain(args[1], args[2]), true
	case args[0] == "relay" && len(args) == 5:
		return relayMain(args[1], args[2], args[3], args[4]), true
	case args[0] == "sample":
		return sampleMain(), true
	case args[0] == "records":
		return recordsMain(), true
	}
	return nil, false
}

// agentLine is the guest's end of the line: a virtio-serial port.
const agentLine = "/dev/virtio-ports/" + AgentPort

// AgentPort is the name of the virtio-serial port between the agent and the host.
const AgentPort = "soak"

// agentMain serves the host until the line breaks.
func agentMain() error {
	line, err := os.OpenFile(agentLine, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer line.Close()
	a := agent{out: json.NewEncoder(line), running: map[int]*child{}}
	a.send(Message{Op: "out", Data: "ready"})
	in := json.NewDecoder(line)
	for {
		var m Message
		if err := in.Decode(&m); err != nil {
			return fmt.Errorf("read the line: %w", err)
		}
		a.handle(m)
	}
}

// agent reads while others send: if a line that is full held up its reading, both ends would wait for ever.
type agent struct {
	sending sync.Mutex // of out
	out     *json.Encoder
	mu      sync.Mutex // of running
	running map[int]*child
}

type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

func (a *agent) send(m Message) {
	a.sending.Lock()
	defer a.sending.Unlock()
	if err := a.out.Encode(m); err != nil {
		fmt.Fprintln(os.Stderr, "soak: agent:", err)
		os.Exit(1) // systemd starts it again
	}
}

func (a *agent) handle(m Message) {
	a.mu.Lock()
	c := a.running[m.ID]
	a.mu.Unlock()
	switch {
	case m.Op == "start":
		a.start(m)
	case c == nil: // it has ended
	case m.Op == "in":
		_, _ = io.WriteString(c.in, m.Data+"\n") // one that has ended tells so
	case m.Op == "kill":
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// start runs a process, with its standard error in its output, and tells its lines.
func (a *agent) start(m Message) {
	cmd := exec.Command(m.Argv[0], m.Argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, inErr := cmd.StdinPipe()
	read, write, err := os.Pipe()
	if err == nil {
		err = inErr
	}
	if err == nil {
		cmd.Stdout, cmd.Stderr = write, write
		err = cmd.Start()
		_ = write.Close()
	}
	if err != nil {
		a.send(Message{Op: "out", ID: m.ID, Data: err.Error()})
		a.send(Message{Op: "exit", ID: m.ID, Code: -1})
		return
	}
	a.mu.Lock()
	a.running[m.ID] = &child{cmd, in}
	a.mu.Unlock()
	go func() {
		lines := bufio.NewScanner(read)
		lines.Buffer(nil, 1<<20)
		ended := make(chan struct{})
		go func() { // a process that it leaves behind may hold the pipe
			_ = cmd.Wait() // the exit code says all
			_ = read.SetReadDeadline(deadlineSoon())
			close(ended)
		}()
		for lines.Scan() {
			a.send(Message{Op: "out", ID: m.ID, Data: lines.Text()})
		}
		_ = read.Close()
		<-ended
		a.mu.Lock()
		delete(a.running, m.ID)
		a.mu.Unlock()
		_ = in.Close()
		a.send(Message{Op: "exit", ID: m.ID, Code: cmd.ProcessState.ExitCode()})
	}()
}
