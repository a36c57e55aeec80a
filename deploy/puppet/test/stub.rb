# frozen_string_literal: true

require 'openssl'
require 'socket'

# Request is what came in: its path with the query, and its headers by their small names.
Request = Struct.new(:path, :headers)

# Stub is a server that answers as a test says, over connections that stay open, and remembers what it was asked.
class Stub
  attr_reader :requests, :port, :connections

  # The block gets a Request and gives status, headers and body.
  def initialize(tls: nil, &answer)
    @answer = answer
    @requests = Queue.new
    @connections = 0
    @threads = []
    tcp = TCPServer.new('127.0.0.1', 0)
    @port = tcp.addr[1]
    @scheme = tls ? 'https' : 'http'
    @server = tls ? OpenSSL::SSL::SSLServer.new(tcp, tls) : tcp
    @thread = Thread.new { accept }
  end

  def url(path = '')
    "#{@scheme}://127.0.0.1:#{@port}#{path}"
  end

  def count
    @requests.size
  end

  # Also the connections that are open end.
  def close
    [@thread, *@threads].each { |t| t.kill.join }
    @server.close unless @server.closed?
  end

  private

  def accept
    loop do
      socket = @server.accept
      @connections += 1
      @threads << Thread.new { serve(socket) }
    rescue OpenSSL::SSL::SSLError, SystemCallError
      next
    end
  end

  def serve(socket)
    while (line = socket.gets)
      headers = {}
      while (h = socket.gets.chomp) != ''
        name, value = h.split(': ', 2)
        headers[name.downcase] = value
      end
      @requests << (request = Request.new(line.split[1], headers))
      status, more, body = @answer.call(request)
      socket.write("HTTP/1.1 #{status} x\r\n", more.map { |k, v| "#{k}: #{v}\r\n" }.join, status == 304 ? "\r\n" : "Content-Length: #{body.bytesize}\r\n\r\n#{body}")
    end
  rescue IOError, SystemCallError, OpenSSL::SSL::SSLError
    nil
  ensure
    socket.close
  end
end

# Documents by their path, each with a tag of its content: what the controller does.
def controller(documents)
  lambda do |request|
    body = documents[request.path.split('?').first]
    return [404, {}, '{"msg":"resource_definition not found by x in environment 1"}'] unless body

    tag = %("#{body.hash}")
    request.headers['if-none-match'] == tag ? [304, { 'ETag' => tag }, ''] : [200, { 'ETag' => tag }, body]
  end
end

# Authority makes certificates for a test.
class Authority
  attr_reader :cert

  def initialize(dir)
    @dir = dir
    @key = OpenSSL::PKey::EC.generate('prime256v1')
    @cert = sign('authority', @key, true)
    File.write(file('ca.pem'), @cert.to_pem)
  end

  def file(name)
    File.join(@dir, name)
  end

  # Gives the names of files of a certificate and its key.
  def issue(name)
    key = OpenSSL::PKey::EC.generate('prime256v1')
    File.write(file("#{name}.pem"), sign(name, key, false).to_pem)
    File.write(file("#{name}.key"), key.to_pem)
    [file("#{name}.pem"), file("#{name}.key")]
  end

  # A server's side; it asks for a certificate of the client.
  def server
    cert, key = issue('server')
    OpenSSL::SSL::SSLContext.new.tap do |c|
      c.add_certificate(OpenSSL::X509::Certificate.new(File.read(cert)), OpenSSL::PKey.read(File.read(key)))
      c.ca_file = file('ca.pem')
      c.verify_mode = OpenSSL::SSL::VERIFY_PEER | OpenSSL::SSL::VERIFY_FAIL_IF_NO_PEER_CERT
    end
  end

  private

  def sign(name, key, authority)
    c = OpenSSL::X509::Certificate.new
    c.version = 2
    c.serial = rand(1 << 60)
    c.subject = OpenSSL::X509::Name.new([['CN', name]])
    c.issuer = authority ? c.subject : @cert.subject
    c.public_key = key
    c.not_before = Time.now - 60
    c.not_after = Time.now + 3600
    f = OpenSSL::X509::ExtensionFactory.new(authority ? c : @cert, c)
    c.add_extension(f.create_extension('basicConstraints', authority ? 'CA:TRUE' : 'CA:FALSE', true))
    c.add_extension(f.create_extension('subjectAltName', 'IP:127.0.0.1', false))
    c.sign(@key, OpenSSL::Digest.new('SHA256'))
  end
end
