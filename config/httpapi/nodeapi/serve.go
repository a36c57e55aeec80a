package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"edgespan/config/httpapi/rest"
)

const (
	// maxSocketPath is the length of sun_path without its NUL (unix(7)), less the suffix under which the socket is
	// created.
	maxSocketPath = 107 - len(freshSuffix)
	freshSuffix   = freshFolder + "/s"
	// freshFolder holds a socket until its mode is set; no other user can enter it.
	freshFolder = ".new"
	// shutdownDeadline bounds the answers in progress when Serve ends.
	shutdownDeadline = 2 * time.Second
	// probeDeadline bounds the check whether a daemon listens on a socket file.
	probeDeadline = time.Second
)

// Serve serves h on the unix socket at socketPath until ctx ends, which is no error. The socket has mode 0660. A socket
// file without a listener is replaced; if a daemon answers on it, Serve returns ErrConflict and does not touch it.
func Serve(ctx context.Context, socketPath string, h http.Handler) error {
	l, err := Listen(ctx, socketPath)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", socketPath, err)
	}
	streams, endStreams := context.WithCancel(context.Background())
	defer endStreams()
	srv := &http.Server{
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), endsKey{},
				streams)
		},
		ConnContext:       withCaller,
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	srv.RegisterOnShutdown(endStreams)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownDeadline)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			err = srv.Close()
		}
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
	}
	if err = errors.Join(err, l.Remove()); err != nil {
		return fmt.Errorf("serve on %s: %w", socketPath, err)
	}
	return nil
}

// callerKey is the context key under which Serve passes the user at the other end of a connection.
type callerKey struct{}

// withCaller adds the user that has opened a connection, as the kernel knows it (SO_PEERCRED).
func withCaller(ctx context.Context, c net.Conn) context.Context {
	unixConn, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return ctx
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			ctx = context.WithValue(ctx, callerKey{}, fmt.Sprintf("uid %d", cred.Uid))
		}
	})
	return ctx
}

// callerOf returns the user who sends a request, as "uid N"; "" if that is unknown.
func callerOf(ctx context.Context) string {
	caller, _ := ctx.Value(callerKey{}).(string)
	return caller
}

// Listen creates a Unix socket of mode 0660: under another name, which it changes once the mode is set, so that no
// socket with a wrong mode can ever be connected to, and a stale one is replaced atomically. If a daemon answers on it,
// Listen returns ErrConflict and does not touch it.
func Listen(ctx context.Context, socketPath string) (*Socket, error) {
	if len(socketPath) > maxSocketPath {
		return nil, fmt.Errorf("path too long (%d octets): must be at most %d", len(socketPath), maxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(socketPath), 0o755); err != nil {
		return nil, err
	}
	if err := mayReplace(ctx, socketPath); err != nil {
		return nil, err
	}
	folder, fresh := socketPath+freshFolder, socketPath+freshSuffix
	for _, left := range []string{fresh, folder} { // left by a killed daemon; in former releases the socket itself
		if err := os.Remove(left); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return nil, err
		}
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(folder) }() // the socket has been renamed by then
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", fresh)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // its first name is gone after the rename
	s := &Socket{Listener: l, path: socketPath}
	err = os.Chmod(fresh, 0o660)
	if err == nil {
		s.own, err = os.Lstat(fresh)
	}
	if err == nil {
		err = os.Rename(fresh, socketPath)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(fresh))
	}
	return s, nil
}

// Socket is a Unix socket that Listen has created.
type Socket struct {
	net.Listener
	path string
	own  fs.FileInfo
}

// Remove removes the file of a closed socket, unless a successor has put its own there meanwhile.
func (s *Socket) Remove() error {
	if now, err := os.Lstat(s.path); err != nil || !os.SameFile(s.own, now) {
		return nil //nolint:nilerr // it is gone
	}
	return os.Remove(s.path)
}

// mayReplace returns why the file at socketPath must not be replaced: it is no socket, or a daemon answers on it.
func mayReplace(ctx context.Context, socketPath string) error {
	info, err := os.Lstat(socketPath)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&os.ModeSocket == 0:
		return errors.New("a file that is not a socket has this name")
	}
	d := net.Dialer{Timeout: probeDeadline}
	c, err := d.DialContext(ctx, "unix", socketPath)
	if err == nil {
		return errors.Join(fmt.Errorf("another daemon answers there: %w", rest.ErrConflict), c.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err // it may be alive: EAGAIN is a daemon with a full backlog
	}
	return nil
}
