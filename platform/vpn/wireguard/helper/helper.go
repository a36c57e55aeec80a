// Package helper is the process that carries the packets of one WireGuard interface on a kernel without WireGuard: it
// runs wireguard-go on a tun device that exists, and answers the configuration protocol on a socket in its folder.
//
// It is configured through that socket only and knows no file, no name and no other tunnel. It never makes a link, and
// logs no secret.
package helper

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"
)

// maxRequest is the length of the longest first line of a request.
const maxRequest = 64

// Run carries the packets of a link until the process gets SIGTERM (nil), or the link is gone. Its socket and its
// output are in the folder.
func Run(folder, link string) error {
	if err := os.Chdir(folder); err != nil {
		return err
	}
	at, err := net.InterfaceByName(link)
	if err != nil {
		return fmt.Errorf("find link %s: %w", link, err)
	}
	t, err := tun.CreateTUN(link, at.MTU)
	if err != nil {
		return fmt.Errorf("attach to link %s: %w", link, err)
	}
	noticed := newNoticed(os.Stderr)
	dev := device.NewDevice(t, &bind{}, noticed.logger())
	defer dev.Close()
	if err := dev.Up(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if err := os.Remove(SocketName); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// Bound under another name: once the socket is found, it accepts connections.
	listen, err := net.ListenUnix("unix", &net.UnixAddr{Name: SocketName + ".new", Net: "unix"})
	if err != nil {
		return err
	}
	listen.SetUnlinkOnClose(false)
	defer listen.Close()
	if err := errors.Join(os.Chmod(SocketName+".new", 0o600), os.Rename(SocketName+".new", SocketName)); err != nil {
		return err
	}
	if err := dropPrivileges(); err != nil {
		return fmt.Errorf("drop privileges: %w", err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	failed := make(chan error, 1)
	go func() { failed <- serve(listen, dev, noticed) }()
	select {
	case <-stop:
		return nil
	case err := <-failed:
		return err
	case <-dev.Wait():
		return fmt.Errorf("link %s is gone", link)
	}
}

func serve(listen net.Listener, dev *device.Device, n *noticed) error {
	for {
		c, err := listen.Accept()
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		go answer(c, dev, n)
	}
}

// answer answers one connection: a request of our own, or those of the protocol.
func answer(c net.Conn, dev *device.Device, n *noticed) {
	defer c.Close()
	in := bufio.NewReaderSize(c, maxRequest)
	first, err := in.ReadSlice('\n')
	if err != nil {
		return
	}
	line := strings.TrimSuffix(string(first), "\n")
	switch name, value, _ := strings.Cut(line, "="); {
	case line == NotesRequest:
		_, _ = io.WriteString(c, n.text()+"errno=0\n\n")
	case name == MemoryRequest:
		bytes, err := strconv.ParseInt(value, 10, 64)
		if err != nil || bytes <= 0 {
			_, _ = io.WriteString(c, "errno=-22\n\n") // EINVAL
			return
		}
		debug.SetMemoryLimit(bytes)
		_, _ = io.WriteString(c, "errno=0\n\n")
	default:
		dev.IpcHandle(prefixed{c, io.MultiReader(strings.NewReader(line+"\n"), in)})
	}
}

// prefixed is a connection whose first line was read already.
type prefixed struct {
	net.Conn
	in io.Reader
}

func (p prefixed) Read(b []byte) (int, error) { return p.in.Read(b) }
