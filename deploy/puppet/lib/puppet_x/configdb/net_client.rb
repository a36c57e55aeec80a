# frozen_string_literal: true

require 'net/http'
require 'openssl'
require 'timeout'
require_relative 'documents'

module PuppetX
  module ConfigDB
    # NetClient asks by Ruby's own HTTP client, for Hiera 3, which has no Puppet around it. It keeps one connection to
    # each controller, which Ruby opens anew once it was broken, and asks for one document at a time.
    class NetClient
      # The time is over.
      class Late < StandardError; end

      AWAY = [Late, Timeout::Error, OpenSSL::SSL::SSLError, Net::ProtocolError, Net::HTTPBadResponse, SystemCallError, SocketError, IOError].freeze

      def initialize
        @open = {}
        @mutex = Mutex.new
      end

      def get(uri, headers, options)
        request = Net::HTTP::Get.new(uri, headers)
        basic = options.basic
        request.basic_auth(basic[:user], basic[:password]) if basic
        site = [uri.scheme, uri.host, uri.port, *%w[ca_file cert_file key_file].map { |name| options[name] }]
        @mutex.synchronize do
          Timeout.timeout(options.timeout, Late, "no answer within #{options.timeout} s") do
            r = (@open[site] ||= connect(uri, options)).request(request)
            Answer.new(r.code.to_i, r['ETag'], r.body)
          end
        rescue *AWAY => e
          raise Away, "#{uri}: #{e.message}"
        end
      end

      private

      def connect(uri, options)
        http = Net::HTTP.new(uri.host, uri.port)
        http.open_timeout = http.read_timeout = http.write_timeout = options.timeout
        if uri.is_a?(URI::HTTPS)
          http.use_ssl = true
          http.ca_file = options['ca_file']
          http.cert, http.key = certificate(options) if options['cert_file']
        end
        http.start
      end

      def certificate(options)
        [OpenSSL::X509::Certificate.new(File.read(options['cert_file'])), OpenSSL::PKey.read(File.read(options['key_file']))]
      rescue SystemCallError, OpenSSL::OpenSSLError => e
        raise Error, "cert_file, key_file: #{e.message}"
      end
    end
  end
end
