# frozen_string_literal: true

require 'minitest/autorun'
require 'tmpdir'
require 'puppet_x/configdb/net_client'
require_relative 'stub'

# What both clients share: options, caching with validation, and what becomes of a controller that does not answer.
class DocumentsTest < Minitest::Test
  include PuppetX::ConfigDB

  def setup
    @dir = Dir.mktmpdir
    @said = []
  end

  def teardown
    @stub&.close
    FileUtils.rm_rf(@dir)
  end

  def serve(tls: nil, &answer)
    @stub = Stub.new(tls: tls, &answer)
  end

  def documents
    @documents ||= Documents.new(NetClient.new)
  end

  # A process that was started anew.
  def restart
    @documents = nil
  end

  def options(more = {})
    Options.new({ 'uri' => @stub.url('/a') }.merge(more), Options::HIERA3)
  end

  def get(more = {})
    o = options(more)
    documents.get(o.address, o) { |warning| @said << warning }
  end

  def refused(words, more = {})
    e = assert_raises(Error) { get(more) }
    assert_includes e.message, words
  end

  def last
    @stub.requests.pop until @stub.requests.size == 1
    @stub.requests.pop
  end

  def test_validates_what_it_has
    docs = { '/a' => '{"k":1}' }
    serve(&controller(docs))
    3.times { assert_equal({ 'k' => 1 }, get) }
    assert_equal 3, @stub.count
    assert last.headers['if-none-match']
    assert_equal 1, @stub.connections, 'the connection stays open'
    docs['/a'] = '{"k":2}'
    assert_equal({ 'k' => 2 }, get)
    assert_equal({ 'k' => 2 }, get)
  end

  def test_keeps_literals_and_depth
    serve { [200, {}, %({"big":12345678901234567890123,"f":1.0,"n":null,"ü.a b":"é","deep":#{'[' * 500}#{']' * 500}})] }
    got = get
    assert_equal [12_345_678_901_234_567_890_123, 1.0, nil, 'é'], got.values_at('big', 'f', 'n', 'ü.a b')
    assert_equal 500, got['deep'].inspect.count('[')
  end

  def test_a_resource_that_is_not_there
    serve(&controller({}))
    assert_nil get
    refused '404: resource_definition not found by x in environment 1', 'strict' => true
  end

  def test_what_is_gone_is_not_brought_back
    docs = { '/a' => '{"k":1}' }
    serve(&controller(docs))
    more = { 'on_error' => 'stale', 'cache_dir' => @dir }
    assert get(more)
    docs.clear
    assert_nil get(more)
    assert_empty Dir.children(@dir)
    docs['/a'] = '{"k":1}'
    assert get(more)
  end

  def test_refusals_are_errors_whatever_on_error_says
    serve { [403, {}, '{"msg":"viewer may not"}'] }
    %w[fail stale ignore].each { |w| refused '403: viewer may not', 'on_error' => w }
    [[302, 'not JSON'], [409, '[]'], [200, 'no'], [200, '[1]'], [200, "{\"a\":\"\xff\"}"], [304, '']].each do |status, body|
      @stub.close
      restart
      serve { [status, { 'Location' => '/b' }, body] }
      assert_raises(Error) { get('on_error' => 'ignore') }
      assert_equal 1, @stub.count, 'a redirection is not followed'
    end
  end

  def test_a_controller_that_is_away
    status = 200
    serve { |r| r.headers['if-none-match'] ? [status == 200 ? 304 : status, {}, ''] : [status, { 'ETag' => '"1"' }, status == 200 ? '{"k":1}' : ''] }
    more = { 'cache_dir' => File.join(@dir, 'below'), 'on_error' => 'stale' }
    get(more)
    [500, 503, 429].each do |s|
      status = s
      refused s.to_s
      refused s.to_s, 'on_error' => 'fail'
      assert_nil get('on_error' => 'ignore')
      assert_equal({ 'k' => 1 }, get(more))
      assert_match(/what it said before is used: .*#{s}/, @said.last)
    end
    @stub.close
    restart
    assert_equal({ 'k' => 1 }, get(more), 'a new process has the file')
    assert_nil get('on_error' => 'ignore')
    assert_match(/its data is left out/, @said.last)
    restart
    refused 'nothing is kept', 'on_error' => 'stale'
    refused 'Connection refused'
  end

  def test_files_are_for_one_only_and_whole
    serve(&controller('/a' => '{"k":"secret"}'))
    dir = File.join(@dir, 'new')
    more = { 'cache_dir' => dir, 'on_error' => 'stale' }
    get(more)
    file = Dir[File.join(dir, '*')].fetch(0)
    assert_equal [0o700, 0o600], [dir, file].map { |f| File.stat(f).mode & 0o777 }
    restart
    get(more)
    assert last.headers['if-none-match'], 'a new process validates the file'
    text = File.read(file)
    [text[0, text.size - 3], '', "\n", text.sub('secret', 'sucret')].each do |torn|
      File.write(file, torn)
      restart
      assert_equal({ 'k' => 'secret' }, get(more))
      refute last.headers['if-none-match']
    end
  end

  def test_a_folder_that_can_not_be_written_is_told
    serve(&controller('/a' => '{"k":1}'))
    File.write(File.join(@dir, 'file'), '')
    assert_equal({ 'k' => 1 }, get('cache_dir' => File.join(@dir, 'file', 'x')))
    assert_match(/cache_dir .*file/, @said.last)
  end

  def test_one_caller_never_gets_what_another_was_told
    serve { |r| [200, { 'ETag' => '"1"' }, JSON.generate(r.headers.slice('x-auth-token', 'authorization', 'if-none-match'))] }
    assert_equal({ 'x-auth-token' => 'a' }, get('token' => 'a'))
    assert_equal({ 'x-auth-token' => 'b' }, get('token' => 'b'))
    assert_equal({ 'authorization' => 'Basic dTpw' }, get('user' => 'u', 'password' => 'p'))
    assert_equal({}, get)
  end

  def test_words_of_files
    serve { |r| [200, {}, JSON.generate(r.headers.slice('x-auth-token', 'authorization'))] }
    file = File.join(@dir, 'word')
    File.write(file, "one\n")
    assert_equal({ 'x-auth-token' => 'one' }, get('token_file' => file))
    File.write(file, 'two')
    assert_equal({ 'x-auth-token' => 'two' }, get('token_file' => file))
    assert_equal({ 'authorization' => 'Basic dTp0d28=' }, get('user' => 'u', 'password_file' => file))
    File.write(file, "a\nb")
    refused 'one line is allowed', 'token_file' => file
    refused 'No such file', 'token_file' => "#{file}x"
  end

  def test_time_is_bounded
    serve { sleep }
    refused 'no answer within 0.2 s', 'timeout' => 0.2
  end

  # What comes too late is not taken for the answer to what is asked next.
  def test_a_late_answer_is_nobodys
    gate = Queue.new
    serve { |r| gate.pop if r.path == '/late'; [200, {}, JSON.generate('path' => r.path)] }
    get
    refused 'no answer within 0.1 s', 'uri' => @stub.url('/late'), 'timeout' => 0.1
    gate << :open
    assert_equal({ 'path' => '/a' }, get)
  end

  def test_certificates
    ca = Authority.new(@dir)
    cert, key = ca.issue('node')
    serve(tls: ca.server, &controller('/a' => '{"k":1}'))
    more = { 'ca_file' => ca.file('ca.pem'), 'cert_file' => cert, 'key_file' => key }
    assert_equal({ 'k' => 1 }, get(more))
    refused 'certificate verify failed', 'cert_file' => cert, 'key_file' => key
    refused @stub.url, 'ca_file' => ca.file('ca.pem')
    refused 'cert_file, key_file:', more.merge('key_file' => ca.file('ca.pem'))
  end

  def test_memory_is_bounded
    kept = Kept.new(100)
    10.times { |i| kept.write(i.to_s, nil, Entry.new('', 'x' * 30)) }
    assert_equal %w[7 8 9], (0..9).map(&:to_s).select { |i| kept.read(i, nil) }
    kept.read('7', nil)
    kept.write('10', nil, Entry.new('', 'x' * 30))
    assert_equal %w[7 9 10], (0..10).map(&:to_s).select { |i| kept.read(i, nil) }
    kept.write('7', nil, Entry.new('', 'x' * 101))
    assert_nil kept.read('7', nil)
  end

  def test_all_faults_of_options_at_once
    given = {
      'token' => "a\nb", 'token_file' => 'relative', 'user' => 'u', 'timeout' => 0, 'on_error' => 'most', 'strict' => 'yes', 'wrong' => 1,
      'merge' => 'unique', 'resources' => [], 'cache_dir' => 7
    }
    e = assert_raises(Error) { Options.new(given, Options::HIERA5) }
    ['uri: is missing', 'token: is not allowed: a string is', 'token_file: is not allowed: an absolute path is', 'on_error: is not allowed: fail, stale, ignore are',
     'timeout: is not allowed', 'strict: is not allowed: true and false are', 'wrong: is unknown', 'merge: is not allowed: first, hash, deep are',
     'resources: is not allowed: a list of names is', 'cache_dir', 'token, token_file, user: only one', 'user: goes with password'].each { |words| assert_includes e.message, words }
    refute_includes e.message, "a\nb"
    [{ 'password' => 'p' }, { 'user' => 'u', 'password' => 'p', 'password_file' => '/f' }, { 'merge' => 'deep' }, { 'sort_merged_arrays' => true },
     { 'resources' => ['a'], 'uri' => 'http://h/p?q' }, { 'resources' => ['a,b'] }, { 'resources' => 'a' }, { 'cert_file' => '/f' }].each do |more|
      assert_raises(Error, more.inspect) { Options.new({ 'uri' => 'http://h/p' }.merge(more), Options::HIERA5) }
    end
  end

  def test_addresses
    o = Options.new({ 'uri' => 'http://h/e/1/nodes/n', 'resources' => %w[override/node a], 'merge' => 'deep', 'knockout_prefix' => '--', 'merge_hash_arrays' => true }, Options::HIERA5)
    assert_equal 'http://h/e/1/nodes/n/hiera/data?resources=override%2Fnode%2Ca&merge=deep&knockout_prefix=--&merge_hash_arrays=1', o.address
    assert_raises(Error) { Options.parse(Options.new({ 'uri' => 'http://h/nodes/', 'resources' => ['a'] }, Options::HIERA5).address) }
    ['http://h/nodes//resources', 'http://h/nodes/../x', 'http://h/a/..', 'http://h/%2e%2E/x', 'http://u:secret@h/x', 'ftp://h/x', '/x', 'http:///x', 'http://h/ x'].each do |a|
      e = assert_raises(Error, a) { Options.parse(a) }
      refute_includes e.message, 'secret'
    end
  end
end
