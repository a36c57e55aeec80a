package helper

import "edgespan/netinst/netstate"

const (
	// Command is the word of the command line that runs a helper.
	Command = "wireguard-tunnel"
	// SocketName is the name of a helper's socket in its folder.
	SocketName = "wg.sock"
	// User is the user that a helper becomes, if the machine has it.
	User = netstate.VPNUser

	// NotesRequest asks for what the helper has noticed: lines KIND=ADDRESS SECONDS, the time as in Unix time.
	NotesRequest = "notes=1"
	// MemoryRequest sets the memory in bytes that the helper should stay below: MemoryRequest=BYTES.
	MemoryRequest = "memory"

	// BadInitiation is a handshake of a peer that is not configured.
	BadInitiation = "bad_initiation"
	// BadResponse is an answer to a handshake that can't be authenticated: its preshared key is another.
	BadResponse = "bad_response"
)
