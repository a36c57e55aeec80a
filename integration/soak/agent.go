package main

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
type message struct {
	Op   string // "start", "in", "kill"; "out", "exit"
	ID   int
	Argv []string `json:",omitempty"`
	Data string   `json:",omitempty"`
	Code int      `json:",omitempty"` // of "exit"; -1: killed, or not started
}

// agentLine is the guest's end of the line: a virtio-serial port.
const agentLine = "/dev/virtio-ports/" + agentPort

const agentPort = "soak"

// agentMain serves the host until the line breaks.
func agentMain() error {
	line, err := os.OpenFile(agentLine, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer line.Close()
	a := agent{out: json.NewEncoder(line), running: map[int]*child{}}
	a.send(message{Op: "out", Data: "ready"})
	in := json.NewDecoder(line)
	for {
		var m message
		if err := in.Decode(&m); err != nil {
			return fmt.Errorf("read the line: %w", err)
		}
		a.handle(m)
	}
}

type agent struct {
	mu      sync.Mutex // of all
	out     *json.Encoder
	running map[int]*child
}

type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

func (a *agent) send(m message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.out.Encode(m); err != nil {
		fmt.Fprintln(os.Stderr, "soak: agent:", err)
		os.Exit(1) // systemd starts it again
	}
}

func (a *agent) handle(m message) {
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
func (a *agent) start(m message) {
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
		a.send(message{Op: "out", ID: m.ID, Data: err.Error()})
		a.send(message{Op: "exit", ID: m.ID, Code: -1})
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
			a.send(message{Op: "out", ID: m.ID, Data: lines.Text()})
		}
		_ = read.Close()
		<-ended
		a.mu.Lock()
		delete(a.running, m.ID)
		a.mu.Unlock()
		_ = in.Close()
		a.send(message{Op: "exit", ID: m.ID, Code: cmd.ProcessState.ExitCode()})
	}()
}
